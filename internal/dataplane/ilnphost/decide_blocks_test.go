package ilnphost

import "encoding/binary"

// blocks draws an option of SACK, or nearly.
func (g *gen) blocks() []byte {
	n := g.IntN(4)
	b := append([]byte{1, 1, 5, pick(g, uint8(2+8*n), uint8(2+8*n), uint8(2+8*n), 3, 34)}, make([]byte, 8*n)...)
	for i := range 2 * n {
		binary.BigEndian.PutUint32(b[4+4*i:], uint32(g.IntN(6)))
	}
	return b
}
