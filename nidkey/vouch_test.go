package nidkey

import (
	"strings"
	"testing"
	"time"

	"roam"
)

const vouchedBody = "roam2:11-22ff-0-1:2001+db8+1+1:alpha:key:"

// TestVouch: the reader alone verifies who made a line, and no other line, reader or key fits.
func TestVouch(t *testing.T) {
	old, reader := drawn(t, 1), drawn(t, 2)
	mine, err := old.Shared(reader.Public)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := reader.Shared(old.Public)
	if err != nil {
		t.Fatal(err)
	}
	v := Vouch{Old: old.NID, Until: time.Unix(2_000_000_000, 0).UTC()}
	v.MAC = mine.Vouches(v.Old, reader.NID, vouchedBody+v.Head())
	got, err := ParseVouch(vouchedBody, v.String())
	if err != nil || got.Old != v.Old || !got.Until.Equal(v.Until) || !got.Check(theirs, reader.NID) ||
		!got.Present() || (Vouch{}).Present() {
		t.Fatalf("%s reads as %+v, %v", v, got, err)
	}
	other, err := drawn(t, 3).Shared(old.Public)
	if err != nil {
		t.Fatal(err)
	}
	later := got
	later.Body = vouchedBody + Vouch{Old: old.NID, Until: v.Until.Add(time.Second)}.Head()
	changed := got
	changed.Body = strings.Replace(got.Body, "alpha", "alphb", 1)
	nobodys := got
	nobodys.MAC = Secret{}.Vouches(old.NID, reader.NID, got.Body)
	renamed := got
	renamed.Old ^= 1 << 8
	reflected := got
	reflected.Old = reader.NID
	for name, c := range map[string]struct {
		v      Vouch
		secret Secret
		reader roam.NID
	}{
		"another reader's secret":      {got, other, reader.NID},
		"no secret":                    {nobodys, Secret{}, reader.NID},
		"another reader":               {got, theirs, reader.NID ^ 1<<8},
		"a later time":                 {later, theirs, reader.NID},
		"a changed line":               {changed, theirs, reader.NID},
		"of another node":              {renamed, theirs, reader.NID},
		"reflected: the reader's name": {reflected, theirs, old.NID},
	} {
		if c.v.Check(c.secret, c.reader) {
			t.Errorf("%s: it is believed", name)
		}
	}
}

func TestVouchFaults(t *testing.T) {
	mac := strings.Repeat("A", 22)
	for name, c := range map[string]struct{ text, says string }{
		"empty": {"", "with dots between"}, "no MAC": {"11-22ff-0-1.5", "with dots between"},
		"four parts": {"11-22ff-0-1.5." + mac + ".x", "with dots between"},
		"short MAC":  {"11-22ff-0-1.5." + mac[:20], ErrLength.Error()},
		"long MAC":   {"11-22ff-0-1.5." + mac + "AA", ErrLength.Error()},
		"no NID":     {".5." + mac, "vouch: node identifier"},
		"no time":    {"11-22ff-0-1.." + mac, "vouch: time"}, "negative": {"11-22ff-0-1.-5." + mac, "vouch: time"},
		"time too large": {"11-22ff-0-1.99999999999999999999." + mac, "vouch: time"},
		"NID zero":       {"0-0-0-0.5." + mac, "roam key rotate"},
		"leading zero":   {"11-22ff-0-1.05." + mac, "roam key rotate"},
	} {
		if v, err := ParseVouch("", c.text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q reads as %+v, %v; want %q", name, c.text, v, err, c.says)
		}
	}
}

func FuzzParseVouch(f *testing.F) {
	f.Add("11-22ff-0-1.2000000000." + strings.Repeat("A", 22))
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVouch("x:", s)
		if err == nil && (v.String() != s || !v.Present() || v.Body != "x:"+v.Head()) {
			t.Fatalf("%q is read as %+v", s, v)
		}
	})
}
