package report

import (
	"strings"
	"testing"

	"roam/lab/result"
)

// A picture stands in the page itself; what is none is not passed on as an
// address, whatever a result file says.
func TestPicturesStandInThePage(t *testing.T) {
	r := result.New("x")
	r.Pictures = []result.Picture{
		{Title: "Frame 12", Caption: "As it was sent.", Type: "image/jpeg", Data: []byte{0xff, 0xd8, 0xff}},
		{Title: "No picture", Type: "text/html,<b>", Data: []byte("x")},
	}
	b, err := Render(r)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `<img src="data:image/jpeg;base64,/9j/" alt="Frame 12">`) {
		t.Error("the page does not hold the picture")
	}
	if strings.Contains(string(b), "text/html,") {
		t.Error("what is no picture became an address")
	}
}
