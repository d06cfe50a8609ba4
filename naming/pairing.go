package naming

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"roam"
	"roam/nidkey"
)

// The tags begin a pairing line and give its version: without a key, and with one.
const (
	tag      = "roam1"
	tagKeyed = "roam2"
)

// maxLocators bounds the locators of a pairing line.
const maxLocators = 255

// FormatPairing returns the line that introduces the node of r to another host:
//
//	roam1:n-n-n-n:l+l+l+l[/preference][,...]:name:checksum
//	roam2:n-n-n-n:l+l+l+l[/preference][,...]:name:key[.modifier]:checksum
//
// The second form is that of a record with a key, in base64url. A modifier says that the NID is
// the hash of the key. FormatVouched adds a field.
//
// It is one word of printable ASCII, so that chat programs and shells do not change it. The
// checksum is CRC-32 (IEEE 802.3) of the text before its colon; it detects errors, not
// forgery. The line has only the first name, and no options: those keep their defaults.
func FormatPairing(r Record) (string, error) {
	body, err := pairingBody(r)
	if err != nil {
		return "", err
	}
	return body + ":" + sum(body), nil
}

// FormatVouched returns the pairing line of a node that has replaced its key, for one reader:
//
//	roam2:n-n-n-n:l+l+l+l[/preference][,...]:name:key.modifier:n-n-n-n.until.MAC:checksum
//
// The second identifier is the one whose key vouches for the new key, until a time. mac returns
// the MAC of all that stands before it.
func FormatVouched(r Record, v nidkey.Vouch, mac func(body string) [nidkey.VouchLen]byte) (string, error) {
	if !r.Key.Present() {
		return "", fmt.Errorf("write pairing line: there is no key to vouch for")
	}
	body, err := pairingBody(r)
	if err != nil {
		return "", err
	}
	v.MAC = mac(body + ":" + v.Head())
	body += ":" + v.String()
	return body + ":" + sum(body), nil
}

// pairingBody returns a pairing line without its checksum.
func pairingBody(r Record) (string, error) {
	if err := checkNode(r.NID, r.Locators); err != nil {
		return "", fmt.Errorf("write pairing line: %w", err)
	}
	if len(r.Names) == 0 {
		return "", fmt.Errorf("write pairing line: the node has no name")
	}
	if len(r.Locators) > maxLocators {
		return "", fmt.Errorf("write pairing line: %d locators, at most %d go on one line", len(r.Locators), maxLocators)
	}
	name, err := CleanName(r.Names[0])
	if err != nil {
		return "", fmt.Errorf("write pairing line: %w", err)
	}
	locs := make([]string, len(r.Locators))
	for i, l := range r.Locators {
		_, locs[i], _ = strings.Cut(roam.ILV{L64: l.L64}.String(), ".")
		if l.Preference != DefaultPreference {
			locs[i] += "/" + strconv.Itoa(int(l.Preference))
		}
	}
	nid, _, _ := strings.Cut(roam.ILV{NID: r.NID}.String(), ".")
	body := strings.Join([]string{tag, nid, strings.Join(locs, ","), name}, ":")
	if r.Key.Present() {
		body = strings.Join([]string{tagKeyed, nid, strings.Join(locs, ","), name, r.Key.String()}, ":")
	}
	return body, nil
}

// ParsePairing reads the line of FormatPairing, and ignores blanks around it.
func ParsePairing(line string) (Record, error) {
	r, err := parsePairing(strings.TrimSpace(line))
	if err != nil {
		return Record{}, fmt.Errorf("read pairing line: %w", err)
	}
	return r, nil
}

func parsePairing(s string) (Record, error) {
	f := strings.Split(s, ":")
	if !IsPairing(s) {
		return Record{}, fmt.Errorf("it does not begin with %q: paste the whole output of `roam export`", tag+":")
	}
	if f[0] != tag && f[0] != tagKeyed {
		return Record{}, fmt.Errorf("version %q is not known, only %q and %q: the other host has a newer Roam",
			f[0], tag, tagKeyed)
	}
	want := 5
	if f[0] == tagKeyed {
		want = 6
	}
	vouched := f[0] == tagKeyed && len(f) == want+1
	if len(f) != want && !vouched {
		return Record{}, fmt.Errorf("%d fields between colons, want %d: a part of the line is missing or doubled",
			len(f), want)
	}
	body := s[:strings.LastIndexByte(s, ':')]
	if want := sum(body); !strings.EqualFold(f[len(f)-1], want) {
		return Record{}, fmt.Errorf("checksum %q, want %q: the line was changed on its way, copy it again", f[len(f)-1], want)
	}
	nid, err := roam.ParseNID(f[1])
	if err != nil {
		return Record{}, err
	}
	name, err := CleanName(f[3])
	if err != nil {
		return Record{}, err
	}
	var locators []Locator
	if f[2] != "" {
		for part := range strings.SplitSeq(f[2], ",") {
			l, err := parseLocator(strings.Replace(part, "/", ",", 1))
			if err != nil {
				return Record{}, err
			}
			locators = append(locators, l)
		}
	}
	if len(locators) > maxLocators {
		return Record{}, fmt.Errorf("%d locators, want at most %d", len(locators), maxLocators)
	}
	if err := checkNode(nid, locators); err != nil {
		return Record{}, err
	}
	var vouch nidkey.Vouch
	if vouched {
		if vouch, err = nidkey.ParseVouch(strings.Join(f[:5], ":")+":", f[5]); err != nil {
			return Record{}, err
		}
	}
	var key nidkey.Claim
	if f[0] == tagKeyed {
		if key, err = nidkey.ParseClaim(f[4]); err != nil {
			return Record{}, err
		}
		if err := key.Check(nid); err != nil { // last, as it takes by far the most time
			return Record{}, err
		}
	}
	// Merging into an empty record drops duplicates and finds contradictions.
	out := Record{NID: nid}
	if err := out.merge(Record{Locators: locators, Names: []string{name}, Key: key}); err != nil {
		return Record{}, err
	}
	out.sortLocators()
	out.Vouch = vouch
	return out, nil
}

// IsPairing reports whether s looks like a pairing line of any version.
func IsPairing(s string) bool {
	t, _, ok := strings.Cut(strings.TrimSpace(s), ":")
	digits, found := strings.CutPrefix(t, "roam")
	_, err := strconv.ParseUint(digits, 10, 16)
	return ok && found && err == nil
}

// ParseAny reads the argument of `roam add`: a pairing line or a line of the hosts file.
func ParseAny(s string) (Record, error) {
	if IsPairing(s) {
		return ParsePairing(s)
	}
	r, err := ParseHostsLine(s)
	if err != nil {
		return Record{}, fmt.Errorf("neither a line of `roam export` nor of the hosts file: %w", err)
	}
	return r, nil
}

func sum(body string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body))) }
