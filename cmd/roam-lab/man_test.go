package main

import (
	"testing"

	"roam/internal/cli/clitest"
	"roam/lab/result"
	"roam/lab/runner"
)

func TestManualHasEveryVerbAndFlag(t *testing.T) { clitest.Verbs(t, "roam-lab.8", newWorld(t).root()) }

func TestManualHasEveryJSONName(t *testing.T) {
	clitest.Names(t, "roam-lab.8", linkCounts{}, runner.Info{}, result.Comparison{})
}
