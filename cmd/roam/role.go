package main

import (
	"context"
	"encoding/json"
	"fmt"

	"roam/internal/control"
)

// roleReport decodes the report of a role of the daemon. With --json it prints the report, and
// returns true.
func (a *app) roleReport(ctx context.Context, name string, to any) (shown bool, err error) {
	err = a.ask(ctx, func(ctx context.Context, b control.Backend) error {
		list, err := b.Roles(ctx, 0)
		if err != nil {
			return err
		}
		for _, r := range list {
			switch {
			case r.Name != name:
			case r.State == control.RoleFailed:
				return control.Errorf(control.CodeUnavailable, "the role %q does not run: %s", name, r.Error).WithHint("%s", r.Do)
			default:
				if err := json.Unmarshal(r.Report, to); err != nil {
					return fmt.Errorf("read report of the role %q: %w", name, err)
				}
				return nil
			}
		}
		return control.Errorf(control.CodeNotFound, "the daemon does not have the role %q", name).
			WithHint("add %q to role.run in roam.conf and restart roamd", name)
	})
	if err != nil || !a.JSON {
		return false, err
	}
	return true, a.PrintJSON(to)
}
