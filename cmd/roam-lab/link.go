package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"roam/internal/cli"
	"roam/lab/linkem"

	"github.com/spf13/cobra"
)

func (a *app) linkCommand() *cobra.Command {
	var at []string
	cmd := &cobra.Command{
		Use:   "link NETNS/DEVICE NETNS/DEVICE [KEY=VALUE]...",
		Short: "Emulate a link between two namespaces, until interrupted",
		Long: "Make a device in each of two network namespaces and carry frames between them\n" +
			"with the properties given, until SIGINT or SIGTERM; both devices go with it.\n" +
			"Keys: delay, jitter, loss, duplicate, rate, queue, reorder, control-first, cut,\n" +
			"seed; ab: or ba: before a key means one direction. A line of settings on\n" +
			"standard input, or the word up or down, changes the link while it carries\n" +
			"traffic; show prints counters.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cli.Usagef("%q needs two ends, each NETNS/DEVICE", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.link(cmd.Context(), args, at, os.Stdin)
		},
	}
	cmd.Flags().StringArrayVar(&at, "at", nil, "make a `CHANGE` by itself: a time since the start, and settings, up or down (5s down); may be repeated")
	return cmd
}

func (a *app) link(ctx context.Context, args, at []string, in io.Reader) error {
	var ab, ba linkem.Params
	var err error
	if settings := args[2:]; len(settings) > 0 {
		if ab, ba, err = linkem.ParseParams(settings, ab, ba); err != nil {
			return cli.Usage(err)
		}
	}
	var schedule []linkem.Change
	for _, s := range at {
		c, err := linkem.ParseChange(s)
		if err != nil {
			return cli.Usage(err)
		}
		schedule = append(schedule, c)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	link, err := linkem.Join(args[0], args[1], ab, ba)
	if err != nil {
		return err
	}
	if !a.JSON {
		fmt.Fprintf(a.Out, "%s and %s are joined; interrupt to remove the link\n", args[0], args[1])
	}
	go a.changes(link, in)
	if err := link.Play(ctx, time.Now(), schedule); err != nil && ctx.Err() == nil {
		_ = link.Close() // report the first error
		return err
	}
	<-ctx.Done()
	if err := link.Close(); err != nil {
		return err
	}
	return a.counts(link)
}

// changes executes the lines of a stream.
func (a *app) changes(link *linkem.Link, in io.Reader) {
	for s := bufio.NewScanner(in); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		var err error
		switch line {
		case "":
			continue
		case "show":
			err = a.counts(link)
		default:
			err = link.Do(line)
		}
		if err != nil {
			a.Warn("%v", err)
		}
	}
}

// counts prints the counters of the frames of both directions.
func (a *app) counts(link *linkem.Link) error {
	ab, ba := link.Counters(linkem.AB), link.Counters(linkem.BA)
	if a.JSON {
		if err := json.NewEncoder(a.Out).Encode(linkCounts{linkCountsOf(ab), linkCountsOf(ba)}); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		return nil
	}
	a.countTable(ab, ba)
	return nil
}

// countTable prints a row for each counter.
func (a *app) countTable(ab, ba linkem.Counters) {
	t := a.Table("FRAMES", "A TO B", "B TO A")
	for _, c := range []struct {
		name   string
		ab, ba uint64
	}{
		{"sent", ab.Frames, ba.Frames}, {"delivered", ab.Delivered, ba.Delivered}, {"duplicated", ab.Duplicated,
			ba.Duplicated},
		{"lost", ab.DropLoss, ba.DropLoss}, {"queue full", ab.DropQueue, ba.DropQueue}, {"down", ab.DropDown, ba.DropDown},
		{"refused", ab.DropError, ba.DropError},
	} {
		t.Row(cli.Text("%s", c.name), cli.Number("%d", c.ab), cli.Number("%d", c.ba))
	}
	t.Print(a.Out)
}

// linkCounts is the JSON form of counts.
type linkCounts struct {
	AB linkDirection `json:"ab"`
	BA linkDirection `json:"ba"`
}

// linkDirection has the counters of one direction.
type linkDirection struct {
	Frames     uint64 `json:"frames"`
	Bytes      uint64 `json:"bytes"`
	Delivered  uint64 `json:"delivered"`
	Duplicated uint64 `json:"duplicated"`
	Lost       uint64 `json:"lost"`
	QueueFull  uint64 `json:"queue_full"`
	Down       uint64 `json:"down"`
	Refused    uint64 `json:"refused"`
}

func linkCountsOf(c linkem.Counters) linkDirection {
	return linkDirection{c.Frames, c.Bytes, c.Delivered, c.Duplicated, c.DropLoss, c.DropQueue, c.DropDown, c.DropError}
}
