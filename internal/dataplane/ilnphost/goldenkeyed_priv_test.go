package ilnphost

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
)

// goldenOf returns the golden packets of a file by name: of theirs at there to ours at here.
func goldenOf(t *testing.T, file string) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile(goldenDir + "/" + file)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]byte)
	for line := range strings.Lines(string(b)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if all[name], err = hex.DecodeString(text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return all
}

// goldenKey is the key of the MACs in golden packets.
func goldenKey() (key [ilnpwire.MACKeyLen]byte) {
	for i := range key {
		key[i] = 0x10 + byte(i)
	}
	return key
}

// TestGoldenKeyed: the programs hand the golden packets of proofs, vouches and MACs over as they are: in a
// session, in one whose peer has another nonce, and behind the first packet of a peer without one.
// From a node of which nothing has come they are dropped. Of all of them only the update with a MAC
// is followed.
func TestGoldenKeyed(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.must(r.SetRecord(Record{NID: theirs}))
	key := goldenKey()
	first := mustPacket(t)(ilnpwire.BuildEcho(at(there, theirs), at(here, ours), theirNonce, true, 9, 7, nil))
	for name, packet := range goldenOf(t, "keyed.hex") {
		t.Run(name, func(t *testing.T) {
			r := r.enter(t)
			handed := func(where string, want bool) {
				t.Helper()
				r.ingress(packet)
				n := 0
				for _, ev := range r.events() {
					if ev.Kind != Control {
						continue // that the session is heard elsewhere
					}
					if n++; !bytes.Equal(ev.Packet, packet) {
						t.Errorf("%s: handed over: %s", where, difference(ev.Packet, packet))
					}
				}
				if want != (n == 1) {
					t.Errorf("%s: handed over %d times, want %t", where, n, want)
				}
			}
			handed("from nobody", false)
			r.ingress(first)
			r.events()
			handed("behind a first packet", true)
			r.must(r.Dismiss(ilnp.SessionKey{Local: ours, Remote: theirs}, theirNonce))

			p := entryFor(else1) // there is not a locator of the session
			p.Unconfirmed, p.MACKey, p.MACCounter = true, key, 100
			p.Validated = []roam.L64{else1}
			r.upsert(p)
			seal := strings.TrimSuffix(name, " in UDP")
			followed := r.counted(func() { handed("in the session", true) })["rx_update_followed"]
			if (followed == 1) != (seal == "update") {
				t.Errorf("followed %d times", followed)
			}
			r.must(r.Delete(p.Key))

			p.RemoteNonce, p.Holds = longNonce, true
			r.upsert(p)
			r.ingress(first)
			r.events()
			handed("in a session with another nonce, while a proof is under way", true)
			r.must(r.Delete(p.Key))
		})
	}
}
