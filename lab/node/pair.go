package node

import "context"

// PairKeys makes a key on each host, and adds the pairing line of the first one on all others, and theirs on it, as
// their users would.
func PairKeys(ctx context.Context, first *Node, others ...*Node) error {
	line, err := first.keyedLine(ctx)
	if err != nil {
		return err
	}
	for _, n := range others {
		theirs, err := n.keyedLine(ctx)
		if err == nil {
			_, err = first.Ask(ctx, "add", theirs, "--as", n.Host.Name())
		}
		if err == nil {
			_, err = n.Ask(ctx, "add", line, "--as", first.Host.Name())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keyedLine makes the key of a host that has none, and returns its pairing line.
func (n *Node) keyedLine(ctx context.Context) (string, error) {
	if _, err := n.Ask(ctx, "key", "new"); err != nil {
		return "", err
	}
	var exported struct {
		Line string `json:"line"`
	}
	err := n.AskFor(ctx, &exported, "export")
	return exported.Line, err
}
