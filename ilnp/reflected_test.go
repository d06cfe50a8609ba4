package ilnp

import (
	"testing"
	"time"

	ilnpwire "roam/wire/ilnp"

	"roam"
)

// TestForgedUpdatesAreNotReflected: the correspondent of a session gets nothing with the
// session's nonce in the form, or by the rule, of an update that somebody else wrote.
func TestForgedUpdatesAreNotReflected(t *testing.T) {
	for _, form := range []ilnpwire.Form{ilnpwire.FormRFC, ilnpwire.FormDraft, ilnpwire.FormLinux} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.prefix(2, netB, roam.Infinite)
		b.openOther(netP)
		b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 600))))
		b.forget()
		o := pending(netP, forged)
		o.Trigger, o.OwnNonce = SeenOtherNonce, b.entries[theKey].LocalNonce
		sent := 0
		for range 20 { // for 2 s, while it seems to talk, its correspondent answers nothing
			sent++
			o.Packets = sent
			b.see(o)
			lu := updateOf(entry(netP, 10, 600))
			if lu.Form = form; form == ilnpwire.FormDraft {
				lu.Code = ilnpwire.CodeReplaceSoft
			}
			b.receive(1, overNIDs(t, b.update(netP, forged, lu)))
			b.pass(100 * time.Millisecond)
		}
		if n := len(b.messages(ilnpwire.Acknowledgement)); n > 0 {
			t.Errorf("form %v: %d acknowledgements", form, n)
		}
		for i, lu := range b.updates() {
			if lu.Form != ilnpwire.FormRFC || len(lu.Locators) != 2 || b.sums(ilnpwire.TypeLocatorUpdate)[i] {
				t.Errorf("form %v: told %+v, over NIDs %v", form, lu, b.sums(ilnpwire.TypeLocatorUpdate))
			}
		}
		if len(b.updates()) == 0 {
			t.Errorf("form %v: it was not asked by an update, so nothing was tested", form)
		}
		stray := updateOf(entry(netC, 10, 600)).Ack() // of an update that is none of ours
		stray.Form = ilnpwire.FormLinux
		b.receive(1, overNIDs(t, b.update(netP, peerNonce, stray)))
		if s := b.Peers(b.now)[0]; s.UpdateForm != ilnpwire.FormRFC || s.ICMPRule != "ipv6" {
			t.Errorf("form %v: learned form %v and rule %s", form, s.UpdateForm, s.ICMPRule)
		}
	}
}
