package role

import "roam/internal/config"

// Warn logs what could not be done, if there is an error, and reports whether there is none.
func (e Env) Warn(what string, err error) bool {
	if err != nil {
		e.Log.Warn(what, "err", err)
	}
	return err == nil
}

// Waits logs what the role waits for in its start, and has the daemon report it.
func (e Env) Waits(what string) {
	e.Log.Info("the start waits", "for", what)
	if e.Waiting != nil {
		e.Waiting(what)
	}
}

// Place says where the configuration has a key: FILE:LINE, or FILE where it has none.
func (e Env) Place(key string) string { return config.Place(e.ConfigFile, key) }
