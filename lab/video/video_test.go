package video

import (
	"bytes"
	"image/jpeg"
	"math"
	"os"
	"path/filepath"
	"testing"

	"roam/internal/testutil"
	"roam/lab/workload"
)

// bytes of one RTP packet of the lab.
const packet = 7 * 188

// clips are made once for all tests.
var clips = map[string]string{}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workload.AgentArg {
		os.Exit(workload.AgentMain(os.Args[2:]))
	}
	status := m.Run()
	for _, path := range clips {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(status)
}

// clip returns a clip of three seconds.
func clip(t *testing.T, kind string) string {
	t.Helper()
	testutil.Need(t, "ffmpeg")
	if clips[kind] != "" {
		return clips[kind]
	}
	dir, err := os.MkdirTemp("", "clip")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "clip.ts")
	clips[kind] = path
	if err := (Clip{kind, 720, 3}).Make(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// without writes a copy of a stream that lacks n packets from the given one on.
func without(t *testing.T, path string, from, n int) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b[:from*packet:from*packet], b[(from+n)*packet:]...)
	out := filepath.Join(t.TempDir(), "damaged.ts")
	if err := os.WriteFile(out, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return out
}

func judge(t *testing.T, sent, got string) Quality {
	t.Helper()
	q, err := Compare(t.Context(), t.TempDir(), sent, got)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestClipsAreNearTheirRates(t *testing.T) {
	testutil.Need(t, "ffmpeg")
	for _, kind := range Kinds {
		c := Clip{kind, 720, loopSeconds + 2} // a clip that repeats
		path := filepath.Join(t.TempDir(), "clip.ts")
		if err := c.Make(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		n, err := frames(t.Context(), path)
		if err != nil || n != c.Seconds*FrameRate {
			t.Errorf("%v: %d frames, %v", c, n, err)
		}
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		kbps := float64(st.Size()) * 8 / 1000 / float64(c.Seconds)
		if math.Abs(kbps/float64(c.Rate())-1) > 0.15 {
			t.Errorf("%v: %.0f kb/s, want %d", c, kbps, c.Rate())
		}
	}
	if (Clip{"sport", 720, 3}).Make(t.Context(), filepath.Join(t.TempDir(), "x")) == nil {
		t.Error("a clip of no kind was made")
	}
}

func TestAnEqualStreamIsPerfect(t *testing.T) {
	sent := clip(t, Motion)
	q := judge(t, sent, sent)
	if !q.Identical || q.Perfect() != 1 || q.Frames != 72 || q.MeanSSIM() != 1 || q.MedianSSIM() != 1 {
		t.Errorf("%+v", q)
	}
}

// A planted loss damages the frames from its place to the next key frame, and
// no others: those after it are compared with their like.
func TestAPlantedLossIsSeenWhereItIs(t *testing.T) {
	for _, kind := range Kinds {
		sent := clip(t, kind)
		st, err := os.Stat(sent)
		if err != nil {
			t.Fatal(err)
		}
		all := int(st.Size()) / packet
		q := judge(t, sent, without(t, sent, all/3, 4))
		if q.Identical || q.Missing != 0 || len(q.Imperfect) == 0 || len(q.Imperfect) > keyframes {
			t.Errorf("%s: %d imperfect frames, %d missing", kind, len(q.Imperfect), q.Missing)
		}
		for f, db := range q.Imperfect {
			if f < 5 || f >= keyframes || math.IsInf(db, 0) {
				t.Errorf("%s: frame %d is imperfect (%g dB)", kind, f, db)
			}
		}
		if w := q.Worst(); q.SSIM[w] > 0.999 || q.Imperfect[w] == 0 {
			t.Errorf("%s: worst frame %d has SSIM %g", kind, w, q.SSIM[w])
		}
		if m := q.MeanSSIM(); m >= 1 || m < 0.3 {
			t.Errorf("%s: mean SSIM %g", kind, m)
		}
	}
}

// Frames missing at the beginning do not shift the later ones.
func TestALostBeginningIsMissing(t *testing.T) {
	sent := clip(t, Motion)
	q := judge(t, sent, without(t, sent, 0, 40))
	if q.Missing == 0 || len(q.SSIM) != q.Frames || q.SSIM[0] != 0 {
		t.Errorf("%d frames missing of %d", q.Missing, q.Frames)
	}
	if q.SSIM[q.Frames-1] != 1 || q.Perfect() == 0 || q.Perfect() > 0.9 {
		t.Errorf("last frame %g, %g perfect", q.SSIM[q.Frames-1], q.Perfect())
	}
}

func TestAnEmptyStreamShowsNothing(t *testing.T) {
	sent := clip(t, Motion)
	empty := filepath.Join(t.TempDir(), "empty.ts")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	q := judge(t, sent, empty)
	if q.Perfect() != 0 || q.Missing != q.Frames || q.MeanSSIM() != 0 || q.MedianSSIM() != 0 {
		t.Errorf("%+v", q)
	}
}

func TestStillsStandSideBySide(t *testing.T) {
	sent := clip(t, Detail)
	damaged := without(t, sent, 0, 60)
	var stills [][]byte
	for _, s := range []string{sent, damaged} {
		b, err := Still(t.Context(), sent, s, 10, 320)
		if err != nil {
			t.Fatal(err)
		}
		stills = append(stills, b)
	}
	if bytes.Equal(stills[0], stills[1]) {
		t.Error("a stream without its beginning shows the sent frame")
	}
	b, err := SideBySide(t.Context(), t.TempDir(), stills...)
	if err != nil {
		t.Fatal(err)
	}
	p, err := jpeg.DecodeConfig(bytes.NewReader(b))
	if err != nil || p.Width != 2*320+gutter || p.Height != 180 {
		t.Errorf("%dx%d, %v", p.Width, p.Height, err)
	}
	if _, err := Still(t.Context(), sent, sent, 10_000, 320); err == nil {
		t.Error("drew a frame that there is not")
	}
}

// The published tuples are the form.
func TestTuple(t *testing.T) {
	ideal := Quality{Identical: true, Frames: 100}
	if got := Summarize([]Quality{ideal, ideal}).String(); got != "<1.00, N/A, N/A, 0/2>" {
		t.Errorf("ideal %s", got)
	}
	bad := Quality{Frames: 100, Imperfect: map[int]float64{3: 20, 4: 30, 5: 25}}
	worse := Quality{Frames: 100, Missing: 7, Imperfect: map[int]float64{9: 10, 10: 26}}
	got := Summarize([]Quality{ideal, bad, worse, ideal})
	want := Tuple{Perfect: (1 + 0.97 + 0.91 + 1) / 4, MinDB: 15, DeltaDB: 28 - 15, Finite: 2, Runs: 4}
	if math.Abs(got.Perfect-want.Perfect) > 1e-9 {
		t.Errorf("perfect %g, want %g", got.Perfect, want.Perfect)
	}
	if got.Perfect = want.Perfect; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if s := got.String(); s != "<0.970, 15.0, 13.0, 2/4>" {
		t.Errorf("written %s", s)
	}
}
