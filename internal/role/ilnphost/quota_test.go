package ilnphost

import (
	"testing"
	"time"
)

func TestQuota(t *testing.T) {
	q := quota{most: securityLines, period: securityTime}
	now := time.Unix(1000, 0)
	through := 0
	for range securityLines + 25 {
		if ok, left := q.take(now); ok {
			through++
			if left != 0 {
				t.Errorf("%d lines left out before any was", left)
			}
		}
	}
	if through != securityLines {
		t.Errorf("%d lines went through, want %d", through, securityLines)
	}
	if ok, left := q.take(now.Add(securityTime)); !ok || left != 25 {
		t.Errorf("a minute later: %v, %d left out, want 25", ok, left)
	}
}
