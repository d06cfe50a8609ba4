package observer

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"roam"
	"roam/internal/control"
	"roam/internal/loop"
	"roam/observer"
	"roam/wire/ip6"
)

// wantStatus compares the role's part of `roam status`.
func wantStatus(t *testing.T, r *Role, want control.RoleStatus) {
	t.Helper()
	var got control.RoleStatus
	err := r.Status(t.Context(), nil, &got)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got)\n%s", err, diff)
	}
}

// What the core knows is shown by link names, in the report and in the metrics.
func TestShown(t *testing.T) {
	now := time.Now()
	r := &Role{loop: loop.New(time.Now), core: observer.New(now), links: map[roam.LinkID]string{3: "wan0"}}
	r.ConfigFile = "/nonexistent"
	all := observer.Egress | observer.Nonce | observer.LocatorUpdate | observer.Unreadable
	for i := range uint64(2) {
		r.core.HandleReading(now.Add(time.Duration(i)*2*time.Second), map[observer.Class]observer.Traffic{
			{}:                                      {Packets: i, Bytes: 40 * i},
			{Link: 3, Next: ip6.TCP, Checksum: 3}:   {Packets: 5 + 3*i, Bytes: 600},
			{Link: 3, Next: ip6.ICMPv6, Flags: all}: {Packets: 1, Bytes: 80},
			{Link: 3, Next: ip6.UDP}:                {},
			{Link: 3, Next: 200, Flags: observer.Unreadable}: {Packets: 2, Bytes: 90},
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.loop.Run(ctx) }()
	got, err := r.Report(ctx)
	none := []string{}
	want := []control.ObservedCount{
		{Direction: "in", Protocol: "0", Flags: none, Checksum: "none", Packets: 1, Bytes: 40, PacketsPerS: 0.5},
		{Link: "wan0", Direction: "in", Protocol: "tcp", Flags: none, Checksum: "partial",
			Packets: 8, Bytes: 600, PacketsPerS: 1.5},
		{Link: "wan0", Direction: "in", Protocol: "200", Flags: []string{"unreadable"}, Checksum: "none",
			Packets: 2, Bytes: 90},
		{Link: "wan0", Direction: "out", Protocol: "icmpv6", Flags: []string{"nonce", "locator-update", "unreadable"},
			Checksum: "none", Packets: 1, Bytes: 80},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got)\n%s", err, diff)
	}
	wantStatus(t, r, control.RoleStatus{Facts: []control.RoleFact{
		{Name: "links", Value: "wan0"}, {Name: "packets", Value: "12 (2/s)"},
	}})
	r.Config.Observer.Links = []string{"wan*", "usb0"}
	wantStatus(t, r, control.RoleStatus{
		Facts: []control.RoleFact{{Name: "links", Value: "wan0"}, {Name: "packets", Value: "12 (2/s)"}},
		Error: "not observed: usb0", Do: "bring the link up, or correct observer.links (/nonexistent)",
	})
	var page bytes.Buffer
	if err := r.Metrics(ctx, &page); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`roam_observer_packets_total{link="wan0",direction="in",protocol="tcp",flags="",checksum="partial"} 8` + "\n",
		`roam_observer_bytes_total{link="wan0",direction="out",protocol="icmpv6",` +
			`flags="nonce,locator-update,unreadable",checksum="none"} 80` + "\n",
	} {
		if !bytes.Contains(page.Bytes(), []byte(line)) {
			t.Errorf("no %s in\n%s", line, page.String())
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := r.Report(t.Context()); err == nil {
		t.Error("a report after the end")
	}
}
