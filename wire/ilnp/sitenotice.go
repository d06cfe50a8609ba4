package ilnp

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"roam"
)

// SiteNotice is what a site border and the hosts of its site exchange in UDP, on the link between
// them (hop limit 255 at both ends). No RFC defines it: docs/design/border.md.
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                       "ROSN" (32 bits)                        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Version = 1  |     Kind      |    Entries    |       0       |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                    Sequence number (64 bits)                  .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|         X25519 key of the asker, or 0 (256 bits)              .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|            Entries: internal Locator (64 bits)                .
//	|            Locator of the site (64 bits)                      .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                       MAC, or 0 (128 bits)                    .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type SiteNotice struct {
	Kind     SiteNoticeKind
	Sequence uint64 // grows by 1 with every change of what a border tells; begins with the time of its start, in ns
	Asker    [32]byte
	Entries  []SiteEntry // at most MaxSiteEntries, only in an answer
	MAC      [MACLen]byte
}

// SiteNoticeKind is what a SiteNotice is for.
type SiteNoticeKind uint8

// The kinds. A notice has no MAC: it asks hosts to send their nonces, and says that an answer would
// differ from earlier ones when its number does. A request names a key that the host has drawn for
// it alone; the answer has a MAC by the secret of that key and the border's.
const (
	NoticeOfSite SiteNoticeKind = 1 + iota
	SiteRequest
	SiteAnswer
)

// SiteEntry says that a border rewrites an internal locator to one of the site. Entries of one
// internal locator are in the order of preference, those that are up alone.
type SiteEntry struct{ Internal, Site roam.L64 }

// MaxSiteEntries are in one answer, which fits into 1280 bytes.
const MaxSiteEntries = 64

// SiteNoticeHops is the hop limit of these messages: a router would have lowered it.
const SiteNoticeHops = 255

// ErrSiteNotice is wrapped by errors about the bytes of a SiteNotice.
var ErrSiteNotice = errors.New("malformed site notice")

const (
	siteMagic     = "ROSN"
	siteVersion   = 1
	siteHeaderLen = 48
	siteEntryLen  = 16
)

// AppendTo appends the message.
func (n SiteNotice) AppendTo(b []byte) ([]byte, error) {
	if n.Kind < NoticeOfSite || n.Kind > SiteAnswer || len(n.Entries) > MaxSiteEntries {
		return b, fmt.Errorf("kind %d, %d entries: %w", n.Kind, len(n.Entries), ErrSiteNotice)
	}
	return append(n.covered(b), n.MAC[:]...), nil
}

// covered appends what the MAC covers: all before it.
func (n SiteNotice) covered(b []byte) []byte {
	b = append(append(b, siteMagic...), siteVersion, byte(n.Kind), byte(len(n.Entries)), 0)
	b = append(binary.BigEndian.AppendUint64(b, n.Sequence), n.Asker[:]...)
	for _, e := range n.Entries {
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(e.Internal)), uint64(e.Site))
	}
	return b
}

// ParseSiteNotice reads a message.
func ParseSiteNotice(b []byte) (n SiteNotice, err error) {
	if len(b) < siteHeaderLen+MACLen || string(b[:4]) != siteMagic || b[4] != siteVersion || b[7] != 0 {
		return n, fmt.Errorf("%d bytes: %w", len(b), ErrSiteNotice)
	}
	n = SiteNotice{
		Kind: SiteNoticeKind(b[5]), Sequence: binary.BigEndian.Uint64(b[8:]), Asker: [32]byte(b[16:siteHeaderLen]),
		MAC: [MACLen]byte(b[len(b)-MACLen:]),
	}
	count := int(b[6])
	if n.Kind < NoticeOfSite || n.Kind > SiteAnswer || count > MaxSiteEntries ||
		len(b) != siteHeaderLen+count*siteEntryLen+MACLen {
		return SiteNotice{}, fmt.Errorf("kind %d, %d entries in %d bytes: %w", n.Kind, count, len(b), ErrSiteNotice)
	}
	for at := siteHeaderLen; at < len(b)-MACLen; at += siteEntryLen {
		n.Entries = append(n.Entries, SiteEntry{
			Internal: roam.L64(binary.BigEndian.Uint64(b[at:])), Site: roam.L64(binary.BigEndian.Uint64(b[at+8:])),
		})
	}
	return n, nil
}

// Seal fills the MAC in. secret is that of the asker's key and the border's (X25519).
func (n *SiteNotice) Seal(secret []byte) { n.MAC = n.mac(secret) }

// Verify reports whether the MAC is right.
func (n SiteNotice) Verify(secret []byte) bool {
	want := n.mac(secret)
	return hmac.Equal(n.MAC[:], want[:])
}

func (n SiteNotice) mac(secret []byte) (mac [MACLen]byte) {
	key, _ := hkdf.Key(sha256.New, secret, nil, "roam site notice 1", sha256.Size) // fails for long keys only
	h := hmac.New(sha256.New, key)
	h.Write(n.covered(nil))
	copy(mac[:], h.Sum(nil))
	return mac
}

// Sites returns the locators of the site for each internal one, in order.
func (n SiteNotice) Sites() map[roam.L64][]roam.L64 {
	m := make(map[roam.L64][]roam.L64)
	for _, e := range n.Entries {
		m[e.Internal] = append(m[e.Internal], e.Site)
	}
	return m
}
