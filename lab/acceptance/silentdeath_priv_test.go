package acceptance

import (
	"testing"
	"time"

	"roam/lab/linkem"
	"roam/lab/workload"
)

// TestConnectionWhoseAcknowledgementsWereLost: the path in use dies in the direction from the host alone. The
// peer's data still arrive, the acknowledgements do not, so its TCP stands still. It goes on within
// 300 ms of the moment in which the host's own data have left the path, by what the applications
// have recorded.
func TestConnectionWhoseAcknowledgementsWereLost(t *testing.T) {
	t.Parallel() // it mostly waits
	const delay, cuts = 5 * time.Millisecond, 4
	w := newWorld(t, "lostacks", delay, place{"mn", 2, true}, place{"cn", 1, false})
	mn, cn := w.newHost("mn", settings{}).start(), w.newHost("cn", settings{}).start()
	mn.becomes("net2")
	u := w.udp(t, "mn", "cn", "cn", 7000, 500)
	tcp, err := workload.StartTCP(w.top.Context(), w.hosts["cn"], w.hosts["mn"], w.scratch(t.Name()), workload.TCPOptions{
		Name: "tcp-down", Target: "cn", Port: 7001, Size: 12500, Every: 5 * time.Millisecond, Down: true, CC: "cubic",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tcp.Kill)
	mn.reaches("cn", "established")
	var began, ended []time.Time
	for range cuts {
		mn.sendsFrom("cn", "net2")
		flows(t, tcp, 5_000_000)
		began = append(began, time.Now())
		set := func(p linkem.Params) {
			t.Helper()
			if err := w.links["mn/net2"].Set(linkem.AB, p); err != nil {
				t.Fatal(err)
			}
		}
		set(linkem.Params{Delay: delay, Cut: true})
		mn.sendsFrom("cn", "net1")
		flows(t, u, 1500)
		set(linkem.Params{Delay: delay})
		ended = append(ended, time.Now())
	}
	stream, err := tcp.Stop(w.within(patience))
	if err != nil {
		t.Fatal(err)
	}
	up, _, err := u.Stop(w.within(patience), drain)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cuts {
		lost := up.Missing(began[i], ended[i])
		if len(lost) == 0 {
			t.Errorf("cut %d: nothing was lost", i+1)
			continue
		}
		left := began[i]
		for _, seq := range lost {
			if at := time.Unix(0, up.Sent[seq].At); at.After(left) {
				left = at
			}
		}
		_, gap := stream.LongestGap(left.Add(delay), left.Add(time.Second))
		t.Logf("cut %d: left after %v; then %v without data", i+1, left.Sub(began[i]), gap)
		if gap > 300*time.Millisecond {
			t.Errorf("cut %d: the connection stands still for %v after the switch", i+1, gap)
		}
	}
	noLeak(t, mn, cn)
}
