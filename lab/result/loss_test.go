package result

import (
	"slices"
	"testing"
)

func TestLossInWords(t *testing.T) {
	for want, l := range map[string]Loss{
		"a: 0 of 9 lost":           {What: "a", Sent: 9},
		"a: 2 of 9 lost; Roam's 2": {What: "a", Sent: 9, Lost: 2},
		"a: 1 of 9 lost; Roam's 1 (the sender's kernel refused 1 of Roam's)": {What: "a", Sent: 9, Lost: 1, Refused: 1},
		"a: 7 of 9 lost; Roam's 1, 1 dropped by queues of the emulator, 2 lost by links set to lose, " +
			"3 dropped by full sockets": {What: "a", Sent: 9, Lost: 7, Emulator: 1, Asked: 2, Sockets: 3},
	} {
		if l.String() != want {
			t.Errorf("%q, want %q", l, want)
		}
	}
}

// The losses of the same traffic are summed, within a run and over several.
func TestLossesOfSeveralRuns(t *testing.T) {
	one := Loss{What: "a", Sent: 10, Lost: 6, Emulator: 1, Asked: 1, Sockets: 1, Refused: 2}
	other := Loss{What: "b", Sent: 3, Lost: 1}
	var runs []*Result
	for range 2 {
		r := New("x")
		r.AddLoss(one)
		r.AddLoss(other)
		r.AddLoss(one)
		if len(r.Losses) != 2 || r.Losses[0].Roam() != 6 {
			t.Fatalf("losses %+v", r.Losses)
		}
		runs = append(runs, r)
	}
	out, err := Merge(runs)
	if err != nil {
		t.Fatal(err)
	}
	want := []Loss{{What: "a", Sent: 40, Lost: 24, Emulator: 4, Asked: 4, Sockets: 4, Refused: 8},
		{What: "b", Sent: 6, Lost: 2}}
	if !slices.Equal(out.Losses, want) || !slices.Equal(out.Each[1].Losses, runs[1].Losses) ||
		runs[0].Losses[0].Sent != 20 {
		t.Errorf("losses %+v, of each %+v", out.Losses, out.Each)
	}
}
