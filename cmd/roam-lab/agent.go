package main

import "roam/lab/workload"

// runAgent serves the lab, which runs this program as a probe inside its hosts. The verb is
// internal, and so not in the tree of commands.
func runAgent(args []string) (status int, ok bool) {
	if len(args) == 0 || args[0] != workload.AgentArg {
		return 0, false
	}
	return workload.AgentMain(args[1:]), true
}
