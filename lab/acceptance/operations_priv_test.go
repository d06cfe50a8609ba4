package acceptance

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
)

// TestOperations asks Roam what is wrong with hosts and paths of which the
// test knows it, and looks at what it tells of itself.
func TestOperations(t *testing.T) {
	needs(t, "nft", "curl", "bpftool", "promtool")
	w := newWorld(t, "operations", 2*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false},
		place{"plain", 1, false}, place{"mute", 1, false}, place{"nobody", 1, false})
	for _, name := range []string{"plain", "mute"} {
		if err := w.hosts[name].AddAddr("net1", netip.PrefixFrom(w.wire(name, 1), 128)); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range []string{
		"add table ip6 filter", "add chain ip6 filter forward { type filter hook forward priority 0 ; }",
		"add rule ip6 filter forward oifname mute* exthdr dst exists drop",
	} {
		w.must("r1", append([]string{"nft"}, strings.Fields(rule)...)...)
	}
	mn := w.newHost("mn", settings{more: "[metrics]\nlisten = \"127.0.0.1:9643\"\n"}).start()
	w.newHost("cn", settings{}).start()
	testutil.Eventually(t, patience, func() bool { return len(mn.locators()) == 2 }, "two locators of mn")

	w.sub("a peer that works", func(t *testing.T) { mn.diagnosed(t, "cn", true, "answers in") })
	w.sub("a peer without Roam", func(t *testing.T) { mn.diagnosed(t, "plain", false, "has no ILNP") })
	w.sub("a path that drops options", func(t *testing.T) {
		mn.diagnosed(t, "mute", false, "nothing that carries a nonce")
	})
	w.sub("nobody there", func(t *testing.T) { mn.diagnosed(t, "nobody", false, "does not answer at all") })
	w.sub("a firewall of this host", func(t *testing.T) { ownFirewall(t, w, mn) })
	w.sub("a move is one line of the log", func(t *testing.T) { moveLogged(t, w, mn) })
	w.sub("a session is explained", func(t *testing.T) {
		if out := mn.roam("explain", "cn"); !strings.Contains(out, "link disabled") ||
			!strings.Contains(out, "held in reserve") && !strings.Contains(out, "only link") {
			t.Errorf("explain: %s", out)
		}
	})
	w.sub("metrics", func(t *testing.T) {
		out := w.must("mn", "curl", "-sS", "http://127.0.0.1:9643/metrics")
		for _, want := range []string{"roam_sessions{state=\"established\"} 1\n", "roam_starts_total 1\n",
			"roam_handoffs_total{trigger=\"link disabled\"} 1\n", "roam_tx_packets_total ",
			"roam_uplink_bytes_total{link=\"net1\",direction=\"out\"} ", "roam_mode{mode=\"soft\"} 1\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("metrics lack %q:\n%s", want, out)
			}
		}
		check := exec.Command("promtool", "check", "metrics")
		check.Stdin = strings.NewReader(out)
		if faults, err := check.CombinedOutput(); err != nil {
			t.Errorf("Prometheus finds fault with the metrics: %v\n%s", err, faults)
		}
	})
	w.sub("no nonce is in a report", func(t *testing.T) { withoutNonces(t, w, mn) })
}

// diagnosed expects that doctor says something of a peer, and its verdict.
func (n *host) diagnosed(t *testing.T, peer string, well bool, want string) {
	t.Helper()
	out, diag, err := n.command("--json", "doctor", peer)
	var got struct {
		OK       bool `json:"ok"`
		Findings []struct{ Level, About, Text, Do string }
	}
	if e := json.Unmarshal([]byte(out), &got); e != nil {
		t.Fatalf("doctor: %v: %s %s", e, out, diag)
	}
	said := false
	for _, f := range got.Findings {
		t.Logf("%-7s %-8s %s", f.Level, f.About, f.Text)
		said = said || strings.Contains(f.Text, want)
	}
	if got.OK != well || (err == nil) != well || !said {
		t.Errorf("verdict %v (%v), want %v; %q was said: %v", got.OK, err, well, want, said)
	}
}

// ownFirewall closes the output of a host, as many rule sets do.
func ownFirewall(t *testing.T, w *world, mn *host) {
	w.must("mn", "nft", "add table inet closed")
	defer w.must("mn", "nft", "delete table inet closed")
	w.must("mn", "nft", "add chain inet closed out { type filter hook output priority 0 ; policy accept ; }")
	w.must("mn", "nft", "add rule inet closed out icmpv6 type 156 drop")
	out, _, err := mn.command("doctor")
	if err == nil || !strings.Contains(out, "drops ICMPv6 type 156") {
		t.Errorf("doctor: %v: %s", err, out)
	}
}

// moveLogged moves the host by command and looks for the line.
func moveLogged(t *testing.T, w *world, mn *host) {
	active := mn.active()
	if len(active) != 1 {
		t.Fatalf("active links: %v", active)
	}
	mn.roam("locator", "disable", active[0])
	line := ""
	testutil.Eventually(t, patience, func() bool {
		b, err := os.ReadFile(mn.Log)
		if err != nil {
			return false
		}
		for l := range strings.Lines(string(b)) {
			if strings.Contains(l, "msg=moved") && strings.Contains(l, `trigger="link disabled"`) {
				line = l
			}
		}
		return line != ""
	}, "a line about the move")
	for _, want := range []string{"from=", "to=", "lu_rtt_ms=", "duration_ms=", "acknowledged=1 ", "given_up=0"} {
		if !strings.Contains(line, want) {
			t.Errorf("the line lacks %q: %s", want, line)
		}
	}
}

// withoutNonces reads the nonces of the live sessions where root can, in the
// pinned map, and looks for them in a report in every likely spelling.
func withoutNonces(t *testing.T, w *world, mn *host) {
	nonces := mn.nonces(t)
	if len(nonces) < 2 {
		t.Fatalf("%d nonces in the map, want those of a session at least", len(nonces))
	}
	saved, err := os.ReadFile(filepath.Join(mn.RunDir(), "sessions"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.scratch("report"), "r.tar.gz")
	mn.roam("report", "--output", file, "cn")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := testutil.Unpack(t, b)
	if !strings.Contains(parts["daemon/sessions.json"], "established") || parts["system/routes.txt"] == "" {
		t.Fatalf("the report has no session or no routes: %v", len(parts))
	}
	for _, nonce := range nonces {
		found := false
		for _, spelling := range spellings(nonce) {
			found = found || strings.Contains(strings.ToLower(string(saved)), spelling)
			for name, text := range parts {
				if strings.Contains(strings.ToLower(text), spelling) {
					t.Errorf("%s holds a nonce, as %q", name, spelling)
				}
			}
		}
		if !found {
			t.Errorf("no spelling of nonce %x is in the saved sessions: the search proves nothing\n%.300s", nonce, saved)
		}
	}
}

// spellings are the ways to write some bytes, in lower case.
func spellings(b []byte) []string {
	var dec, spaced []string
	for _, o := range b {
		dec = append(dec, strconv.Itoa(int(o)))
		spaced = append(spaced, fmt.Sprintf("%02x", o))
	}
	list := []string{
		string(b), hex.EncodeToString(b), strings.Join(spaced, " "), strings.Join(spaced, ":"),
		"0x" + strings.Join(spaced, " 0x"),
		strings.Join(dec, ","), strings.Join(dec, ", "), strings.Join(dec, " "),
		strings.TrimRight(base64.StdEncoding.EncodeToString(b), "="),
		strings.TrimRight(base64.URLEncoding.EncodeToString(b), "="),
	}
	for i := range list {
		list[i] = strings.ToLower(list[i])
	}
	return list
}

// nonces reads those of all sessions out of the data plane.
func (n *host) nonces(t *testing.T) (list [][]byte) {
	t.Helper()
	type nonce struct {
		Len int   `json:"len"`
		B   []int `json:"b"`
	}
	var entries []struct {
		Formatted struct {
			Value struct {
				Local  nonce `json:"local_nonce"`
				Remote nonce `json:"remote_nonce"`
			} `json:"value"`
		} `json:"formatted"`
	}
	out, err := n.Host.Command(n.w.within(patience), "bpftool", "-j", "map", "dump", "pinned",
		filepath.Join(n.RunDir(), "bpf", "ilnp", "sessions")).Output()
	if err != nil {
		t.Fatalf("read the pinned map: %v", err)
	}
	if err := json.Unmarshal(out, &entries); err != nil {
		t.Fatalf("read the pinned map: %v: %.200s", err, out)
	}
	for _, e := range entries {
		for _, v := range []nonce{e.Formatted.Value.Local, e.Formatted.Value.Remote} {
			b := make([]byte, 0, v.Len)
			for _, o := range v.B[:v.Len] {
				b = append(b, byte(o))
			}
			if len(b) > 0 {
				list = append(list, b)
			}
		}
	}
	return list
}
