package naming

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"roam"
	"roam/nidkey"
)

// DefaultPreference is the preference of a locator written without one.
const DefaultPreference = 10

// Record is the static configuration of one correspondent.
type Record struct {
	NID      roam.NID
	Locators []Locator // best first; without any only the peer can open a session
	Names    []string  // lower case, without a final dot; the first is the primary one
	Checksum Checksum
	Update   Update
	Nonce    Nonce
	Order    Order
	Anywhere Anywhere
	Key      nidkey.Claim // zero: the node has none, as far as is known
	Plain    Plain
	Optional bool         // a session with the node may do without its key
	Vouch    nidkey.Vouch // of a pairing line only: an older key of the node says that Key is its too
}

// Locator is one locator of a correspondent.
type Locator struct {
	L64        roam.L64
	Preference uint16 // lower is preferred (RFC 6742 §2.3)
}

// Checksum is the rule of TCP and UDP checksums that a correspondent uses.
type Checksum uint8

// The rules. The zero value leaves the choice to the configuration.
const (
	ChecksumUnset   Checksum = iota
	ChecksumIPv6             // valid for the addresses on the wire
	ChecksumRFC6741          // locators count as zero (RFC 6741 §4.2)
)

// Update is the form of Locator Updates that a correspondent understands.
type Update uint8

// The forms. The zero value leaves the choice to the configuration.
const (
	UpdateUnset   Update = iota
	UpdateRFC6743        // 12-byte entries
	UpdateDraft          // 16-byte entries
)

// Nonce says which packets to a correspondent carry a nonce.
type Nonce uint8

// The policies. The zero value is NonceFirst, until the correspondent turns out to need
// more.
const (
	NonceUnset  Nonce = iota
	NonceFirst        // those that RFC 6744 §4 lists
	NonceAlways       // every one: some stacks treat a packet without nonce as plain IPv6
)

// Order selects the source of the first Locator Update after a change.
type Order uint8

// The orders; the zero value is that of OrderNew.
const (
	OrderUnset Order = iota
	OrderNew         // from the new locator, so that it precedes the data
	OrderOld         // from a locator that the correspondent already knows
)

// Anywhere says whether the record applies wherever the node is validated, or only at the
// locators that it lists.
type Anywhere uint8

// The values. The zero value is AnywhereNo.
const (
	AnywhereUnset Anywhere = iota
	AnywhereNo
	AnywhereYes
)

// Plain says whether plain IPv6 may be used to a node whose key is known. To any other it may.
type Plain uint8

// The values. The zero value is PlainNo.
const (
	PlainUnset Plain = iota
	PlainNo
	PlainYes
)

var (
	checksumWords = []string{ChecksumIPv6: "ipv6", ChecksumRFC6741: "rfc6741"}
	updateWords   = []string{UpdateRFC6743: "rfc6743", UpdateDraft: "draft"}
	nonceWords    = []string{NonceFirst: "first", NonceAlways: "always"}
	orderWords    = []string{OrderNew: "new", OrderOld: "old"}
	anywhereWords = []string{AnywhereNo: "no", AnywhereYes: "yes"}
	plainWords    = []string{PlainNo: "no", PlainYes: "yes"}
)

// Options returns the options that the record sets, in the syntax of the hosts file.
func (r Record) Options() []string {
	var f []string
	if r.Checksum != ChecksumUnset {
		f = append(f, "checksum="+checksumWords[r.Checksum])
	}
	if r.Update != UpdateUnset {
		f = append(f, "update="+updateWords[r.Update])
	}
	if r.Nonce != NonceUnset {
		f = append(f, "nonce="+nonceWords[r.Nonce])
	}
	if r.Order != OrderUnset {
		f = append(f, "lu-order="+orderWords[r.Order])
	}
	if r.Anywhere != AnywhereUnset {
		f = append(f, "anywhere="+anywhereWords[r.Anywhere])
	}
	if r.Plain != PlainUnset {
		f = append(f, "plain="+plainWords[r.Plain])
	}
	if r.Key.Present() {
		f = append(f, "key="+r.Key.String())
	}
	if r.Optional {
		f = append(f, "key="+keyOptional)
	}
	return f
}

// keyOptional is the value of the option key that says that a session may do without the key.
const keyOptional = "optional"

// Guarded reports whether plain IPv6 must not be used to the node: its key is known, so somebody
// who cannot prove it may be another node.
func (r Record) Guarded() bool { return r.Key.Present() && r.Plain != PlainYes }

// HostsLine returns the record as one line of the hosts file in the plain form.
func (r Record) HostsLine() string {
	f := []string{"nid=" + r.NID.String()}
	for _, l := range r.Locators {
		f = append(f, fmt.Sprintf("l64=%v,%d", l.L64, l.Preference))
	}
	f = append(f, r.Options()...)
	return strings.Join(append(f, r.Names...), " ")
}

// merge adds the facts of o to r, which has the same NID. On a contradiction it fails and
// leaves r unchanged.
func (r *Record) merge(o Record) error {
	next := Record{
		NID: r.NID, Locators: slices.Clone(r.Locators), Names: slices.Clone(r.Names),
		Checksum: max(r.Checksum, o.Checksum), Update: max(r.Update, o.Update),
		Nonce: max(r.Nonce, o.Nonce), Order: max(r.Order, o.Order), Anywhere: max(r.Anywhere, o.Anywhere),
		Key: cmp.Or(r.Key, o.Key), Plain: max(r.Plain, o.Plain), Optional: r.Optional || o.Optional,
	}
	for _, l := range o.Locators {
		i := slices.IndexFunc(next.Locators, func(x Locator) bool { return x.L64 == l.L64 })
		if i < 0 {
			next.Locators = append(next.Locators, l)
		} else if next.Locators[i].Preference != l.Preference {
			return fmt.Errorf("locator %v has preference %d here and %d before: write it the same, or once only",
				l.L64, l.Preference, next.Locators[i].Preference)
		}
	}
	for _, n := range o.Names {
		if !slices.Contains(next.Names, n) {
			next.Names = append(next.Names, n)
		}
	}
	if o.Checksum != ChecksumUnset && r.Checksum != ChecksumUnset && o.Checksum != r.Checksum {
		return fmt.Errorf("checksum=%s here and %s before, of one node", checksumWords[o.Checksum], checksumWords[r.Checksum])
	}
	if o.Update != UpdateUnset && r.Update != UpdateUnset && o.Update != r.Update {
		return fmt.Errorf("update=%s here and %s before, of one node", updateWords[o.Update], updateWords[r.Update])
	}
	if o.Nonce != NonceUnset && r.Nonce != NonceUnset && o.Nonce != r.Nonce {
		return fmt.Errorf("nonce=%s here and %s before, of one node", nonceWords[o.Nonce], nonceWords[r.Nonce])
	}
	if o.Order != OrderUnset && r.Order != OrderUnset && o.Order != r.Order {
		return fmt.Errorf("lu-order=%s here and %s before, of one node", orderWords[o.Order], orderWords[r.Order])
	}
	if o.Anywhere != AnywhereUnset && r.Anywhere != AnywhereUnset && o.Anywhere != r.Anywhere {
		return fmt.Errorf("anywhere=%s here and %s before, of one node", anywhereWords[o.Anywhere], anywhereWords[r.Anywhere])
	}
	if o.Plain != PlainUnset && r.Plain != PlainUnset && o.Plain != r.Plain {
		return fmt.Errorf("plain=%s here and %s before, of one node", plainWords[o.Plain], plainWords[r.Plain])
	}
	if o.Key.Present() && r.Key.Present() && o.Key.Public != r.Key.Public {
		return fmt.Errorf("key=%s here and %s before, of one node: a node has one key", o.Key, r.Key)
	}
	*r = next
	return nil
}

// With returns the record updated by a newer one of the same node. The newer record's
// locators, if any, and its options replace those of r; its names follow those of r.
func (r Record) With(newer Record) Record {
	out := r
	out.Names = slices.Clone(r.Names)
	for _, n := range newer.Names {
		if !slices.Contains(out.Names, n) {
			out.Names = append(out.Names, n)
		}
	}
	if len(newer.Locators) > 0 {
		out.Locators = newer.Locators
	}
	out.Checksum = cmp.Or(newer.Checksum, r.Checksum)
	out.Update = cmp.Or(newer.Update, r.Update)
	out.Nonce = cmp.Or(newer.Nonce, r.Nonce)
	out.Order = cmp.Or(newer.Order, r.Order)
	out.Anywhere = cmp.Or(newer.Anywhere, r.Anywhere)
	out.Key = cmp.Or(newer.Key, r.Key)
	out.Plain = cmp.Or(newer.Plain, r.Plain)
	out.Optional = newer.Optional || r.Optional
	return out
}

// sortLocators sorts by preference and keeps the order of equals.
func (r *Record) sortLocators() {
	slices.SortStableFunc(r.Locators, func(a, b Locator) int { return cmp.Compare(a.Preference, b.Preference) })
}

// checkNode refuses NIDs and locators that no node can have.
func checkNode(nid roam.NID, locators []Locator) error {
	if nid == 0 {
		return fmt.Errorf("node identifier zero is the routers' anycast address (RFC 4291 §2.6.1): no node has it")
	}
	for _, l := range locators {
		if !l.L64.Usable() {
			return fmt.Errorf("locator %v is link-local, multicast or zero: give the /64 prefix by which the node is reached",
				l.L64)
		}
	}
	return nil
}

// CleanName returns the canonical form of a name: lower case, no final dot. It refuses
// addresses and names that are no host names (RFC 1123 §2.1), but allows underscores.
func CleanName(s string) (string, error) {
	n := strings.ToLower(strings.TrimSuffix(s, "."))
	if n == "" || len(n) > 253 {
		return "", fmt.Errorf("name %q: want 1 to 253 characters", s)
	}
	if _, err := netip.ParseAddr(n); err == nil {
		return "", fmt.Errorf("name %q is an address: give a name", s)
	}
	for label := range strings.SplitSeq(n, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", fmt.Errorf("name %q: a label is empty, longer than 63 characters, or begins or ends with a hyphen", s)
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "", fmt.Errorf("name %q: character %q is not allowed; use letters, digits, hyphens and dots", s, c)
			}
		}
	}
	return n, nil
}
