// Command scorecard prints the measures of the house style for the tree that
// it is run in: what the limit is, where we are, and a star where we are off.
// It fails only when it cannot read the tree; the tests of package house hold
// what has a stop.
//
//	go run ./internal/house/scorecard
package main

import (
	"fmt"
	"os"
	"os/exec"

	"roam/internal/house"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "scorecard:", err)
		os.Exit(1)
	}
}

func run() error {
	tree, err := house.Load(os.DirFS("."))
	if err != nil {
		return err
	}
	rows := house.Measures(tree)
	// safe.directory: root may read a checkout that belongs to a user.
	log, err := exec.Command("git", "-c", "safe.directory=*", "log", "--no-merges", "--format="+
		house.HistoryFormat).Output()
	if err == nil {
		rows = append(rows, house.History(string(log))...)
	} else {
		fmt.Fprintln(os.Stderr, "scorecard: no history to measure:", err)
	}
	fmt.Print(house.Table(rows))
	return nil
}
