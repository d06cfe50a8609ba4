package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"roam/internal/cli"
	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/control/controltest"
)

// healthy gives the machine of a world what doctor looks at.
func healthy(w *world) {
	w.daemon.StatusValue.Version = version
	w.daemon.StatusValue.Plane.Features = []string{"tcx", "csum-replace-ipv6", "netfilter-bpf", "ringbuf"}
	w.daemon.LocatorList[1].Disabled = false
	w.machine.files = map[string]string{
		"/proc/sys/kernel/osrelease": "6.6.10-amd64\n",
		"/etc/resolv.conf":           "nameserver 127.0.0.156\n",
	}
	w.machine.output = map[string]string{
		"ip -j -6 address show": `[{"ifname":"wlan0","mtu":1500,"flags":["UP","LOWER_UP"],"addr_info":[{"family":"inet6","local":"2001:db8:1:1::5","prefixlen":64,"scope":"global"}]},
			{"ifname":"wwan0","mtu":1500,"flags":["UP","LOWER_UP"],"addr_info":[{"family":"inet6","local":"2001:db8:2:1::5","prefixlen":64,"scope":"global"}]},
			{"ifname":"roam0","mtu":1492,"flags":["UP","LOWER_UP"],"addr_info":[{"family":"inet6","local":"fd69:6c6e:7000:2627:11:22ff:0:1","prefixlen":128,"scope":"global"}]}]`,
		"ip -j -6 route show table all root fd69:6c6e:7000:2627::/64": `[{"dst":"fd69:6c6e:7000:2627::/64","dev":"roam0","table":"local","flags":[]}]`,
		"ip -j -6 route show default":                                 `[{"dst":"default","dev":"wlan0"},{"dst":"default","dev":"wwan0"}]`,
		"nft -j list ruleset":                                         `{"nftables": []}`,
	}
	w.machine.names = map[string][]netip.Addr{"server.example": {netip.MustParseAddr("fd69:6c6e:7000:2627:211:22ff:0:2")}}
}

func TestDoctorOfAHealthyHost(t *testing.T) {
	w := newWorld(t)
	healthy(w)
	status, out, errs := w.try("doctor")
	if status != cli.StatusOK || errs != "" {
		t.Errorf("status %d, errors %q", status, errs)
	}
	golden(t, "doctor.txt", out)
	if told := w.daemon.Instructions(); len(told) > 0 {
		t.Errorf("the daemon was told %q", told)
	}
}

func TestDoctorOfAPeer(t *testing.T) {
	w := newWorld(t)
	healthy(w)
	status, out, _ := w.try("doctor", "server.example")
	golden(t, "doctor-peer.txt", out)
	if told := w.daemon.Instructions(); status != cli.StatusOK || len(told) != 1 || told[0] != "probe 0211:22ff:0000:0002" {
		t.Errorf("status %d, the daemon was told %q", status, told)
	}
	w.daemon.ProbeValue = control.Probed{State: "plain", WhyPlain: "no ILNP there"}
	if status, out, _ = w.try("doctor", "server.example"); status != cli.StatusFailure || !strings.Contains(out, "has no ILNP") {
		t.Errorf("without ILNP: status %d, %s", status, out)
	}
	if status, out, _ = w.try("doctor", "nobody.example"); status != cli.StatusFailure || !strings.Contains(out, "no peer is called nobody.example") {
		t.Errorf("a pending peer: status %d, %s", status, out)
	}
}

func TestDoctorWithoutDaemon(t *testing.T) {
	w := newWorld(t)
	healthy(w)
	w.daemon.Err = errAbsent
	status, out, _ := w.try("doctor", "--json")
	var got examined
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if status != cli.StatusFailure || got.OK || len(got.Findings) == 0 || got.Findings[0].Do != "roam up" {
		t.Errorf("status %d, %+v", status, got)
	}
}

// TestDoctorByTheConfigurationInForce: keys of the file that wait for a restart are no fault of the host.
func TestDoctorByTheConfigurationInForce(t *testing.T) {
	w := newWorld(t)
	healthy(w)
	w.usual = filepath.Join(t.TempDir(), "roam.conf")
	w.daemon.StatusValue.Config = w.usual
	w.machine.files["/run/roam/roam.conf"] = config.Format(config.Default())
	text := "[host]\ndevice = \"roam1\"\nsession_prefix = \"fd00:1:2:2fc::/64\"\n[ilnp]\nidle_timeout = \"20m\"\n"
	if err := os.WriteFile(w.usual, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := w.try("doctor")
	flat := strings.Join(strings.Fields(out), " ")
	want := `"; host.device: "roam0" -> "roam1"; ilnp.idle_timeout: "10m" -> "20m" > restart the daemon`
	if status != cli.StatusOK || errs != "" || !strings.Contains(flat, want) {
		t.Errorf("status %d, %q, %s", status, errs, out)
	}
	if _, out, _ := w.try("explain", "server"); strings.Contains(out, "20 min") {
		t.Errorf("explained by a key that waits for a restart: %s", out)
	}
	w.daemon.StatusValue.Config = "/elsewhere/roam.conf" // the file is not the daemon's
	if status, out, _ = w.try("doctor"); status != cli.StatusOK || strings.Contains(out, "waits for") {
		t.Errorf("status %d, %s", status, out)
	}
}

// reticent is a daemon that does not tell its locators.
type reticent struct{ *controltest.Fake }

func (reticent) Locators(context.Context) ([]control.Locator, error) {
	return nil, errors.New("no answer")
}

// TestDoctorOfAReticentDaemon: what the daemon does not tell is not taken for missing.
func TestDoctorOfAReticentDaemon(t *testing.T) {
	w := newWorld(t)
	healthy(w)
	w.connect = func(string) control.Backend { return reticent{w.daemon} }
	status, out, _ := w.try("doctor", "server.example")
	if status != cli.StatusFailure || !strings.Contains(out, "answered only in part: locators: no answer") {
		t.Errorf("status %d, %s", status, out)
	}
	for _, wrong := range []string{"no link can be used", "no peer is called"} {
		if strings.Contains(out, wrong) {
			t.Errorf("%q is said: %s", wrong, out)
		}
	}
}

func TestExplain(t *testing.T) {
	w := newWorld(t)
	for file, args := range map[string][]string{
		"explain.txt":       {"explain", "server.example"},
		"explain.json":      {"explain", "2001:db8:ff:1:211:22ff:0:2", "--json"},
		"explain-dead.txt":  {"explain", "0:0:0:3"},
		"explain-plain.txt": {"explain", "plain.example"},
		"explain-known.txt": {"explain", "quiet.example"},
	} {
		status, out, errs := w.try(args...)
		if status != cli.StatusOK || errs != "" {
			t.Errorf("%s: status %d, errors %q", file, status, errs)
		}
		golden(t, file, out)
	}
	if status, _, errs := w.try("explain", "nobody"); status != cli.StatusFailure || !strings.Contains(errs, "known: server.example") {
		t.Errorf("a pending peer: status %d, %q", status, errs)
	}
}
