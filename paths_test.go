package roam_test

import (
	"testing"

	"roam"
)

func TestPathChange(t *testing.T) {
	c := roam.PathsAdded | roam.PathsReturned
	last := roam.LocatorsWithdrawn.String()
	if c.String() != "added+returned" || roam.PathChange(0).String() != "" || last != "withdrawn" {
		t.Errorf("%v, %v, %v", c, roam.PathChange(0), last)
	}
	if !c.Has(roam.PathsReturned|roam.PathsLost) || c.Has(roam.PathsLost) {
		t.Errorf("%v has not what it has", c)
	}
}
