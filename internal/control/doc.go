// Package control is the door through which people and programs ask the daemon
// what it does and tell it what to do: JSON over HTTP on a unix socket.
//
// It implements the typed answers, the server (which turns requests into calls
// of a Backend) and the client (which is a Backend itself, so that a command
// and a test are written against the same interface). It omits authorisation
// beyond the mode and group of the socket, and every secret: no type here can
// hold a nonce. The daemon drives the server, cmd/roam drives the client.
//
// The JSON names are stable: fields are added, never renamed or removed.
//
//	GET  /v1/status    Status
//	GET  /v1/locators  []Locator
//	GET  /v1/sessions  []Session, written while they are read; cut without its end on a failure
//	GET  /v1/summary   Summary
//	GET  /v1/counters  []Counter
//	GET  /v1/events    Event, one object a line, until either side closes
//	GET  /v1/history   []Event
//	GET  /v1/roles     []RoleReport; with ?peer=NID also what they say of that peer
//	GET  /v1/export    Exported
//	PUT  /v1/mode      ModeRequest
//	PUT  /v1/link      LinkRequest
//	PUT  /v1/border/link DrainRequest
//	POST /v1/peers     AddRequest      -> Peer
//	POST /v1/probe     ProbeRequest    -> Probed
//	POST /v1/reload                    -> Reloaded
//	POST /v1/shutdown  ShutdownRequest
//
// A refusal has an HTTP status of 400 or more and an Error as its body.
package control
