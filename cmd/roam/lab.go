package main

import (
	"github.com/spf13/cobra"
)

func (a *app) labCommand() *cobra.Command {
	return &cobra.Command{Use: "lab", Short: "Experiments in network namespaces", Args: noArgs}
}
