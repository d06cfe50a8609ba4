package acceptance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/site"
	ilnpwire "roam/wire/ilnp"
)

// The builds before this one that pairs have at one end: of the last commit that knows nothing of keys, and of the last
// one whose sessions change their keys at any offer, and which ask for no proof.
const (
	beforeKeys  = "3cf507edb197ba9b30c47df21e7381e64327ea23"
	beforeRoots = "b23f806bf30271c6d5de3e2086ac011e0baa5bf4"
)

// pairsEnv asks for all pairs, not only for those that CI has the time for; earlierEnv names a directory with roam and
// roamd of an earlier build that has keys.
const (
	pairsEnv   = "ROAM_ALL_PAIRS"
	earlierEnv = "ROAM_BINARIES_EARLIER"
)

// kind is what one end of a pair is.
type kind string

const (
	keyed   kind = "keyed"   // this build, with a key that the other end gets
	unkeyed kind = "unkeyed" // this build, with a line of version 1
	before  kind = "before"  // the build before keys
	earlier kind = "earlier" // a build before this one, with a key
)

// hasKey reports whether an end has a key, and gets that of the other end.
func (k kind) hasKey() bool { return k == keyed || k == earlier }

// isKeyed reports whether both ends have a key.
func isKeyed(pair [2]kind) bool { return pair[0].hasKey() && pair[1].hasKey() }

// allPairs are the pairs of kinds; inCI and acrossInCI are those that CI runs directly and across a border.
var (
	allPairs = [][2]kind{
		{keyed, keyed}, {keyed, unkeyed}, {unkeyed, keyed}, {keyed, before},
		{before, keyed}, {unkeyed, before}, {before, unkeyed}, {keyed, earlier}, {earlier, keyed},
	}
	inCI       = [][2]kind{{keyed, unkeyed}, {before, keyed}}
	acrossInCI = [][2]kind{{keyed, before}}
)

// beforeBuild and earlierBuild build the programs of before once.
var (
	beforeBuild  = sync.OnceValues(func() (node.Binaries, error) { return buildOf(beforeKeys, os.Getenv(beforeEnv)) })
	earlierBuild = sync.OnceValues(func() (node.Binaries, error) { return buildOf(beforeRoots, os.Getenv(earlierEnv)) })
)

// buildOf builds the programs of a commit out of the history of this repository, unless a directory has them.
func buildOf(commit, has string) (bin node.Binaries, err error) {
	if has != "" {
		return node.In(has), nil
	}
	dir, err := os.MkdirTemp(scratch, "roam-before")
	if err != nil {
		return bin, err
	}
	// The working directory is that of the package, inside the repository.
	c := exec.Command("bash", "-c", `set -eu -o pipefail
top=$(git -c safe.directory='*' rev-parse --show-toplevel)
mkdir "$2/src"
git -c safe.directory='*' -C "$top" archive "$1" | tar -x -C "$2/src"
cd "$2/src"
CGO_ENABLED=0 "$top/build/with-go" go build -trimpath -buildvcs=false -o "$2/" ./cmd/roam ./cmd/roamd
chmod 755 "$2"
rm -r "$2/src"`, "before", commit, dir)
	if out, err := c.CombinedOutput(); err != nil {
		return bin, fmt.Errorf("build %.12s: %w: %s\n"+
			"a clone without history lacks it: git fetch --unshallow, or name a directory with both in %s or %s",
			commit, err, out, beforeEnv, earlierEnv)
	}
	return node.In(dir), nil
}

// eachPair runs f as a subtest for some pairs, or for all where these are asked for.
func eachPair(t *testing.T, some [][2]kind, f func(t *testing.T, pair [2]kind, builds [2]node.Binaries)) {
	needs(t, "git", "ip")
	for _, pair := range allPairs {
		if !slices.Contains(some, pair) && os.Getenv(pairsEnv) == "" {
			continue
		}
		t.Run(fmt.Sprintf("%s and %s", pair[0], pair[1]), func(t *testing.T) {
			builds := [2]node.Binaries{binaries, binaries}
			for i, k := range pair {
				var err error
				switch k {
				case before:
					builds[i], err = beforeBuild()
				case earlier:
					builds[i], err = earlierBuild()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			f(t, pair, builds)
		})
	}
}

// swapLines gives each of two nodes the other one's line, as far as it can read it.
func swapLines(t *testing.T, pair [2]kind, nodes [2]*node.Node, names [2]string) {
	t.Helper()
	for i, n := range nodes {
		if pair[i].hasKey() {
			roamOn(t, n, "key", "new")
		}
	}
	for i, n := range nodes {
		args := []string{"export"}
		if pair[i].hasKey() && !isKeyed(pair) {
			args = append(args, "--v1")
		}
		line := roamOn(t, n, args...)
		want := map[bool]string{true: "roam2:", false: "roam1:"}[isKeyed(pair)]
		if !strings.HasPrefix(line, want) {
			t.Fatalf("%v prints %q, want %s", args, line, want)
		}
		roamOn(t, nodes[1-i], "add", line, "--as", names[i], "--replace")
	}
}

// wantLevel wants both ends to show how they know each other, and a session of ILNP: this build
// says keyed of a keyed pair and of no other one; the build before says nothing of that.
func wantLevel(t *testing.T, pair [2]kind, nodes [2]*node.Node) {
	t.Helper()
	both := isKeyed(pair)
	for i, n := range nodes {
		var list []node.Session
		testutil.Eventually(t, patience, func() bool {
			var err error
			list, err = n.Sessions(t.Context())
			return err == nil && len(list) == 1 && list[0].State == "established"
		}, fmt.Sprintf("%s has one session", pair[i]))
		if got := list[0].Proof == "keyed"; got != both || list[0].Proved != both {
			t.Errorf("%s shows %q, proved %t", pair[i], list[0].Proof, list[0].Proved)
		}
	}
}

// shows counts the packets between two nodes that have a proof or a MAC, and the acknowledgements of Locator
// Updates.
func shows(tap *wiretap, a, b roam.NID) (keyed, acks int) {
	keyed = tap.count(func(p ilnpwire.Packet) bool {
		return (p.Src.NID == a && p.Dst.NID == b || p.Src.NID == b && p.Dst.NID == a) && (p.Proof != nil || p.Seal != nil)
	})
	for _, from := range []roam.NID{a, b} {
		acks += tap.count(updateFrom(from, ilnpwire.Acknowledgement))
	}
	return keyed, acks
}

// TestPairs has hosts of all kinds talk with each other: each can begin, connections and datagrams go on as one moves,
// at the level that both ends have. A capture shows that nothing of keys goes to an end that has none.
func TestPairs(t *testing.T) {
	eachPair(t, inCI, func(t *testing.T, pair [2]kind, builds [2]node.Binaries) {
		w := newWorld(t, "pairs", 2*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
		w.cable("mn", "net2", false)
		hosts := [2]*host{w.newHost("mn", settings{accept: "known"}), w.newHost("cn", settings{accept: "known"})}
		var nodes [2]*node.Node
		for i, h := range hosts {
			h.Use(builds[i])
			nodes[i] = h.start().Node
		}
		mn, cn := hosts[0], hosts[1]
		swapLines(t, pair, nodes, [2]string{"mn", "cn"})
		tap := w.tap(t, w.r1, "core")
		w.echo(t, "cn", claimPort)
		w.echo(t, "mn", claimPort)
		began := time.Now()
		u := w.udp(t, "mn", "cn", "cn", 7000, 200)
		c := w.talk(t, "mn", "tcp6", "cn", claimPort)
		c.echoed(t, "before the move")
		wantLevel(t, pair, nodes)
		w.cable("mn", "net2", true)
		mn.becomes("net2")
		mn.sendsFrom("cn", "net2")
		flows(t, u, 20) // what was under way to net1 has come
		w.cable("mn", "net1", false)
		c.echoed(t, "after the move")
		flows(t, u, 100)
		w.talk(t, "cn", "tcp6", "mn", claimPort).echoed(t, "the other way")
		wantLevel(t, pair, nodes)
		w.lossless(t, u, began)
		n, acks := shows(tap, w.nid("mn"), w.nid("cn"))
		if n > 0 != isKeyed(pair) || acks == 0 {
			t.Errorf("%d packets with a proof or a MAC, %d acknowledgements of Locator Updates", n, acks)
		}
		noLeak(t, mn, cn)
		if !isKeyed(pair) {
			return
		}
		for _, h := range hosts { // the other one still has the session
			h.signal(syscall.SIGKILL)
			h.roam("down")
			if err := h.Forget(); err != nil {
				t.Fatal(err)
			}
			h.start()
			reconnects(t, w, "mn", "cn")
			reconnects(t, w, "cn", "mn")
			wantLevel(t, pair, nodes)
		}
	})
}

// reconnects waits until a host reaches another one by a new connection.
func reconnects(t *testing.T, w *world, from, to string) {
	t.Helper()
	var c *client
	testutil.Eventually(t, patience, func() bool {
		c = w.talk(t, from, "tcp6", to, claimPort)
		return c.connected()
	}, fmt.Sprintf("%s reaches %s", from, to))
	c.echoed(t, from+" to "+to)
}

// TestPairDowngraded: a peer whose key is known has gone back to the build before keys. Its name fails
// at once with Unreachable, and doctor prints a command. That command, as it stands, lets the peer be
// reached by ILNP without a key, whether this host has forgotten its session, or still has it.
func TestPairDowngraded(t *testing.T) {
	needs(t, "git", "ip")
	old, err := beforeBuild()
	if err != nil {
		t.Fatal(err)
	}
	for _, forgets := range []bool{true, false} {
		t.Run(fmt.Sprintf("forgets %t", forgets), func(t *testing.T) {
			w := newWorld(t, "downgraded", 2*time.Millisecond, place{"mn", 1, true}, place{"cn", 1, false})
			mn := w.newHost("mn", settings{accept: "known"}).start()
			cn := w.newHost("cn", settings{accept: "known"}).start()
			swapLines(t, [2]kind{keyed, keyed}, [2]*node.Node{mn.Node, cn.Node}, [2]string{"mn", "cn"})
			w.echo(t, "cn", claimPort)
			w.talk(t, "mn", "tcp6", "cn", claimPort).echoed(t, "by key")
			mn.proved("cn")
			for _, h := range []*host{cn, mn} {
				if h == cn || forgets {
					h.down()
					if err := h.Forget(); err != nil {
						t.Fatal(err)
					}
				}
			}
			cn.Use(old)
			cn.write(settings{accept: "known"})
			cn.start()
			if forgets {
				mn.start()
				c := w.talk(t, "mn", "tcp6", "cn", claimPort)
				said := c.out.text()
				if c.connected() || !strings.Contains(said, "unreachable") && !strings.Contains(said, "no route") {
					t.Errorf("a guarded name without its key: %s", c.out.text())
				}
			}
			mn.followsDoctor(t, w)
			var c *client
			testutil.Eventually(t, patience, func() bool { // its peer still has the session of before
				c = w.talk(t, "mn", "tcp6", "cn", claimPort)
				return c.connected()
			}, "a connection without a key")
			c.echoed(t, "allowed")
			if s := mn.with("cn"); s.State != "established" || s.Proved {
				t.Errorf("with an optional key the session is %s, %s, proved %t", s.State, s.Proof, s.Proved)
			}
		})
	}
}

// followsDoctor runs the command by which doctor says how a peer without its key can be reached.
func (h *host) followsDoctor(t *testing.T, w *world) {
	t.Helper()
	var out string
	command := regexp.MustCompile("`roam add '([^'`]*)'`")
	testutil.Eventually(t, 2*patience, func() bool {
		w.talk(t, "mn", "tcp6", "cn", claimPort).connected()
		out, _, _ = h.command("doctor")
		out = strings.Join(strings.Fields(out), " ")
		return strings.Contains(out, "connections to cn fail") && command.MatchString(out)
	}, "doctor prints a command for the peer without its key")
	line := command.FindStringSubmatch(out)[1]
	if !strings.Contains(line, "key=optional") {
		t.Errorf("doctor advises %q for a peer that has ILNP", line)
	}
	roamOn(t, h.Node, "add", line)
}

// TestPairsAcrossBorder has the same pairs talk across a border that rewrites addresses, over two providers: each pair
// works at its level, and no internal locator leaves the site.
func TestPairsAcrossBorder(t *testing.T) {
	eachPair(t, acrossInCI, func(t *testing.T, pair [2]kind, builds [2]node.Binaries) {
		ctx, stop := context.WithCancel(context.Background())
		s, err := site.NewOver("pairsite", false, [2]linkem.Params{})
		t.Cleanup(func() {
			defer stop()
			if t.Failed() {
				explain(t, s)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		more, both := "", isKeyed(pair)
		if both { // who has a key says where he is himself: the border's address is in no proof
			more = "[uplinks]\noutside = { \"fd00:0:1::\" = [\"2001:db8:a::\", \"2001:db8:b::\"] }\n"
		}
		if err == nil {
			err = s.Roam(binaries, more, site.Section(0, site.Policy(0, "vlb", 50, 50), ""))
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Inside.Use(builds[0])
		s.Outside.Use(builds[1])
		if err := s.Start(ctx); err != nil {
			t.Fatal(err)
		}
		nodes := [2]*node.Node{s.Inside, s.Outside}
		if both { // else the hosts file says all that there is to know
			swapLines(t, pair, nodes, [2]string{"inside", "outside"})
		}
		for i := range nodes {
			if pair[i].hasKey() && !both {
				roamOn(t, nodes[i], "key", "new")
			}
		}
		ping(t, s, "-c", "5", "-i", "0.2", "-W", "5")
		sent, lost := between(t, s, 200, 2*time.Second, func() {})
		if lost > 0 || sent == 0 {
			t.Errorf("%d of %d datagrams lost", lost, sent)
		}
		wantLevel(t, pair, nodes)
	})
}
