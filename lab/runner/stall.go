package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"

	"roam/lab/result"
	"roam/lab/workload"
)

// stallLimitMs is the length of a stall of the machine from which a run counts
// as disturbed.
const stallLimitMs = 20

// watchStalls starts the sentinel; the function that it returns ends it and
// returns what it saw.
func watchStalls(ctx context.Context) (func() (result.Sentinel, error), error) {
	argv, err := workload.Agent("sentinel", strconv.Itoa(stallLimitMs))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout = &out
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open standard input of sentinel: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start sentinel: %w", err)
	}
	return func() (s result.Sentinel, err error) {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			return s, fmt.Errorf("run sentinel: %w", err)
		}
		if err := json.Unmarshal(out.Bytes(), &s); err != nil {
			return s, fmt.Errorf("decode figures of sentinel: %w", err)
		}
		return s, nil
	}, nil
}
