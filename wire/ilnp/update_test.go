package ilnp_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

var entries = []ilnp.LocatorEntry{
	{L64: 0x2001_0db8_0001_000a, Preference: 10, Lifetime: 1800},
	{L64: 0x2001_0db8_0003_00c4, Preference: 0x0102, Lifetime: 0xfffe},
}

var (
	rfcBytes = []byte{
		156, 0, 0, 0, 2, 1, 0, 0,
		0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0x0a, 0, 10, 0x07, 0x08,
		0x20, 0x01, 0x0d, 0xb8, 0, 3, 0, 0xc4, 1, 2, 0xff, 0xfe,
	}
	draftBytes = []byte{
		156, 7, 0, 0, 2, 2, 0, 0,
		0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0x0a, 0, 10, 0, 0, 0, 0, 0x07, 0x08,
		0x20, 0x01, 0x0d, 0xb8, 0, 3, 0, 0xc4, 1, 2, 0, 0, 0, 0, 0xff, 0xfe,
	}
	// linuxBytes are an acknowledgement of the University of St Andrews' kernel, as it
	// was captured, but for the checksum.
	linuxBytes = []byte{
		156, 0, 0, 0, 1, 2, 0, 0,
		0x20, 0x01, 0x0d, 0xb8, 0, 0xa2, 0, 0, 0x0a, 0, 0, 0, 0x1e, 0, 0, 0,
	}
	rfcUpdate   = ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: entries}
	draftUpdate = ilnp.LocatorUpdate{
		Code:      ilnp.CodeReplaceSoft,
		Operation: ilnp.Acknowledgement,
		Locators:  entries,
		Form:      ilnp.FormDraft,
	}
	linuxUpdate = ilnp.LocatorUpdate{Operation: ilnp.Acknowledgement, Form: ilnp.FormLinux,
		Locators: []ilnp.LocatorEntry{{L64: 0x2001_0db8_00a2_0000, Preference: 10, Lifetime: 30}}}
)

func TestUpdateRoundTrip(t *testing.T) {
	for name, c := range map[string]struct {
		update ilnp.LocatorUpdate
		bytes  []byte
	}{"rfc 6743": {rfcUpdate, rfcBytes}, "draft": {draftUpdate, draftBytes}, "linux": {linuxUpdate, linuxBytes}} {
		b, err := c.update.AppendTo(dirty())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(b, c.bytes) {
			t.Errorf("%s: emitted\n%x, want\n%x", name, b, c.bytes)
		}
		u, err := ilnp.ParseLocatorUpdate(c.bytes)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(u, c.update) {
			t.Errorf("%s: parsed %+v, want %+v", name, u, c.update)
		}
	}
}

// Reserved fields are ignored and the checksum is not looked at here.
func TestUpdateIgnoresReserved(t *testing.T) {
	b := bytes.Clone(draftBytes)
	copy(b[2:], []byte{0xaa, 0xbb})
	copy(b[6:], []byte{0xcc, 0xdd})
	copy(b[18:], []byte{0xee, 0xff})
	u, err := ilnp.ParseLocatorUpdate(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(u, draftUpdate) {
		t.Errorf("parsed %+v", u)
	}
}

func TestUpdateAck(t *testing.T) {
	a := rfcUpdate.Ack()
	if a.Operation != ilnp.Acknowledgement || rfcUpdate.Operation != ilnp.Advertisement {
		t.Errorf("acknowledgement %d of %d", a.Operation, rfcUpdate.Operation)
	}
	b, err := a.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone(rfcBytes)
	want[5] = 2
	if !bytes.Equal(b, want) {
		t.Errorf("body\n%x, want\n%x", b, want)
	}
}

func TestUpdateClampsLifetime(t *testing.T) {
	for life, want := range map[uint32]uint32{0: 0, 65535: 65535, 65536: 65535, 0xffffffff: 65535} {
		u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: 1, Lifetime: life}}}
		if got := again(t, u).Locators[0].Lifetime; got != want {
			t.Errorf("lifetime %d becomes %d, want %d", life, got, want)
		}
		u.Form, u.Code = ilnp.FormDraft, ilnp.CodeAddHard
		if got := again(t, u).Locators[0].Lifetime; got != life {
			t.Errorf("draft form: lifetime %d becomes %d", life, got)
		}
	}
}

func TestUpdateOfManyLocators(t *testing.T) {
	for _, n := range []int{1, 2, 254, 255} {
		for _, form := range []ilnp.Form{ilnp.FormRFC, ilnp.FormDraft, ilnp.FormLinux} {
			u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Form: form}
			if form == ilnp.FormDraft {
				u.Code = ilnp.CodeDeleteSoft
			}
			for i := range n {
				u.Locators = append(u.Locators, ilnp.LocatorEntry{L64: roam.L64(i + 1), Preference: uint32(i)})
			}
			if got := again(t, u); !reflect.DeepEqual(got, u) {
				t.Errorf("%d locators, %s: round trip differs", n, form)
			}
		}
	}
}

func again(t *testing.T, u ilnp.LocatorUpdate) ilnp.LocatorUpdate {
	t.Helper()
	b, err := u.AppendTo(dirty())
	if err != nil {
		t.Fatal(err)
	}
	got, err := ilnp.ParseLocatorUpdate(b)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestUpdateTruncation(t *testing.T) {
	fields := []string{"type", "code", "checksum", "checksum", "count", "operation", "reserved", "reserved"}
	for _, whole := range [][]byte{rfcBytes, draftBytes} {
		size := (len(whole) - 8) / 2
		for n := range whole {
			_, err := ilnp.ParseLocatorUpdate(whole[:n])
			if !errors.Is(err, ip6.ErrTruncated) {
				t.Fatalf("%d of %d bytes: %v, want truncation", n, len(whole), err)
			}
			want := "locator 2"
			if n < 8+size {
				want = "locator 1"
			}
			if n < 8 {
				want = fields[n]
			}
			if s := err.Error(); !strings.Contains(s, want) || !strings.Contains(s, "offset") {
				t.Errorf("%d bytes: error %q does not name %s and its offset", n, s, want)
			}
		}
	}
}

func TestUpdateRefusals(t *testing.T) {
	edit := func(b []byte, at int, v uint8) []byte {
		b = bytes.Clone(b)
		b[at] = v
		return b
	}
	for name, c := range map[string]struct {
		bytes []byte
		want  error
	}{
		"another type":            {edit(rfcBytes, 0, 155), ip6.ErrMalformed},
		"code 8":                  {edit(draftBytes, 1, 8), ip6.ErrMalformed},
		"no locators":             {edit(rfcBytes, 4, 0)[:8], ilnp.ErrNoLocators},
		"operation 0":             {edit(rfcBytes, 5, 0), ip6.ErrMalformed},
		"operation 3":             {edit(rfcBytes, 5, 3), ip6.ErrMalformed},
		"fewer counted":           {edit(rfcBytes, 4, 1), ip6.ErrMalformed},
		"more counted":            {edit(rfcBytes, 4, 3), ip6.ErrTruncated},
		"byte behind":             {append(bytes.Clone(rfcBytes), 0), ip6.ErrMalformed},
		"linux, fewer counted":    {append(edit(linuxBytes, 4, 1), linuxBytes[8:]...), ip6.ErrMalformed},
		"linux, more counted":     {edit(linuxBytes, 4, 2), ip6.ErrTruncated},
		"linux, byte behind":      {append(bytes.Clone(linuxBytes), 0), ip6.ErrMalformed},
		"rfc entries with code 7": {edit(rfcBytes, 1, 7), ip6.ErrTruncated},
	} {
		_, err := ilnp.ParseLocatorUpdate(c.bytes)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		} else if !strings.Contains(err.Error(), "offset") {
			t.Errorf("%s: error %q names no offset", name, err)
		}
	}
}

func TestUpdateEmitRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*ilnp.LocatorUpdate)
		want error
	}{
		"no locators": {func(u *ilnp.LocatorUpdate) { u.Locators = nil }, ilnp.ErrNoLocators},
		"256 locators": {func(u *ilnp.LocatorUpdate) { u.Locators = make([]ilnp.LocatorEntry, 256) },
			ip6.ErrMalformed},
		"operation 0":        {func(u *ilnp.LocatorUpdate) { u.Operation = 0 }, ip6.ErrMalformed},
		"draft with code 0":  {func(u *ilnp.LocatorUpdate) { u.Form = ilnp.FormDraft }, ip6.ErrMalformed},
		"rfc form, code 7":   {func(u *ilnp.LocatorUpdate) { u.Code = 7 }, ip6.ErrMalformed},
		"draft form, code 8": {func(u *ilnp.LocatorUpdate) { u.Code, u.Form = 8, ilnp.FormDraft }, ip6.ErrMalformed},
		"draft, code 200":    {func(u *ilnp.LocatorUpdate) { u.Code, u.Form = 200, ilnp.FormDraft }, ip6.ErrMalformed},
		"linux form, code 7": {func(u *ilnp.LocatorUpdate) { u.Code, u.Form = 7, ilnp.FormLinux }, ip6.ErrMalformed},
		"a fourth form":      {func(u *ilnp.LocatorUpdate) { u.Form = ilnp.FormLinux + 1 }, ip6.ErrMalformed},
		"long preference": {func(u *ilnp.LocatorUpdate) { u.Locators = []ilnp.LocatorEntry{{Preference: 65536}} },
			ip6.ErrMalformed},
		"reserved operation3": {func(u *ilnp.LocatorUpdate) { u.Operation = 3 }, ip6.ErrMalformed},
	} {
		u := rfcUpdate
		c.edit(&u)
		if _, err := u.AppendTo(nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// Every code from 1 on has the draft form.
func TestUpdateFormByCode(t *testing.T) {
	for code := uint8(1); code <= ilnp.CodeReplaceSoft; code++ {
		b := bytes.Clone(draftBytes)
		b[1] = code
		u, err := ilnp.ParseLocatorUpdate(b)
		if err != nil {
			t.Fatalf("code %d: %v", code, err)
		}
		if u.Form != ilnp.FormDraft || u.Code != code {
			t.Errorf("code %d: parsed %+v", code, u)
		}
	}
}

// Of code 0 the length tells the two forms apart, whatever the count; a length that
// fits neither is refused.
func TestUpdateFormByLength(t *testing.T) {
	for count := 1; count <= ilnp.MaxLocators; count++ {
		for n := 8; n <= 8+16*count+16; n++ {
			b := make([]byte, n)
			b[0], b[4], b[5] = ilnp.TypeLocatorUpdate, uint8(count), uint8(ilnp.Advertisement)
			u, err := ilnp.ParseLocatorUpdate(b)
			switch {
			case n == 8+12*count && (err != nil || u.Form != ilnp.FormRFC),
				n == 8+16*count && (err != nil || u.Form != ilnp.FormLinux),
				n != 8+12*count && n != 8+16*count && err == nil:
				t.Fatalf("%d bytes with count %d: form %v, %v", n, count, u.Form, err)
			}
		}
	}
}
