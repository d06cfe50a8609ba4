package control

import (
	"errors"
	"fmt"
	"net/http"
)

// Code is the class of a refusal.
type Code string

// The codes, each with the HTTP status that carries it.
const (
	CodeInvalid     Code = "invalid"     // 400: the request itself is wrong
	CodeNotFound    Code = "not-found"   // 404: what it names does not exist
	CodeConflict    Code = "conflict"    // 409: it contradicts what there is
	CodeChoice      Code = "choice"      // 409: it wants one of the options that the hint names
	CodeUnsupported Code = "unsupported" // 501: this host or kernel cannot
	CodeUnavailable Code = "unavailable" // 503: not now
	CodeInternal    Code = "internal"    // 500: the daemon failed
)

// ErrNotRunning is wrapped by the client's errors when no daemon answers on
// the socket.
var ErrNotRunning = errors.New("no daemon answers")

// Error is a refusal with what to do about it.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"error"`
	Hint    string `json:"hint,omitempty"` // a sentence, or a command to try

	cause error
}

// Errorf makes an Error without a hint; %w keeps its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// WithHint returns a copy of e that says what to do.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// Error returns the message, without the hint.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, where the error was made in this process.
func (e *Error) Unwrap() error { return e.cause }

// Hint returns what err says should be done, or "".
func Hint(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

func (c Code) status() int {
	switch c {
	case CodeInvalid:
		return http.StatusBadRequest
	case CodeNotFound:
		return http.StatusNotFound
	case CodeConflict, CodeChoice:
		return http.StatusConflict
	case CodeUnsupported:
		return http.StatusNotImplemented
	case CodeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// asError finds the refusal in err, or makes an internal one of it.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		// Keep the context that wrapping added to the message.
		return &Error{Code: e.Code, Message: err.Error(), Hint: e.Hint, cause: err}
	}
	return &Error{Code: CodeInternal, Message: err.Error(), cause: err}
}
