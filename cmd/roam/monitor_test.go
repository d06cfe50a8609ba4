package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"roam"
	"roam/internal/cli"
	"roam/internal/control"
)

// TestMonitorOfAPeer: each word by which other verbs find a peer selects its events, those under an alias included; of
// a word that names nobody the monitor does not wait.
func TestMonitorOfAPeer(t *testing.T) {
	w := newWorld(t)
	const alias = 0x0100_0000_0000_0007
	w.daemon.SessionList = append(w.daemon.SessionList, control.Session{
		NID: 9, RemoteAlias: alias, Address: control.SessionAddr(roam.DefaultSessionPrefix, alias), Names: []string{},
	})
	server := control.Event{Kind: "peer-dead", Peer: 0x0211_22ff_0000_0002, PeerName: "server.example"}
	later := control.Event{Kind: "peer-dead", Peer: 8, PeerName: "server.example"}
	quiet := control.Event{Kind: "session-started", Peer: 5, PeerName: "quiet.example"}
	claimed := control.Event{Kind: "peer-moved", Peer: alias}
	validated := control.Event{Kind: "session-named", Peer: 9}
	events := []control.Event{{Kind: "mode-changed"}, server, later, quiet, claimed, validated}
	w.connect = func(string) control.Backend { return teller{w.daemon, events} }
	for word, want := range map[string][]control.Event{
		"server.example": {server, later}, "Server": {server, later}, "server.": {server, later},
		"211:22ff:0:2": {server, later}, "fd69:6c6e:7000:2627:211:22ff:0:2": {server, later},
		"quiet.example": {quiet}, "0:0:0:9": {claimed, validated}, "fd69:6c6e:7000:2627:100::7": {claimed},
	} {
		status, out, errs := w.try("monitor", "--json", word)
		var got []control.Event
		for line := range strings.Lines(out) {
			var e control.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		if !reflect.DeepEqual(got, want) || status != cli.StatusNoDaemon {
			t.Errorf("%s: status %d, %+v, %s", word, status, got, errs)
		}
	}
	status, out, errs := w.try("monitor", "servr")
	if status != cli.StatusFailure || !strings.Contains(errs, `no peer is called "servr"`) || out != "" {
		t.Errorf("a word that names nobody: status %d, %s%s", status, out, errs)
	}
}
