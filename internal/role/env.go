package role

// Warn logs what could not be done, if there is an error.
func (e Env) Warn(what string, err error) {
	if err != nil {
		e.Log.Warn(what, "err", err)
	}
}
