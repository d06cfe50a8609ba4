package ilnp

import (
	"encoding/binary"

	"roam"
)

// ReportMAC returns the MAC of a report: SipHash-2-4 with 128 bits of output, over the data of the answer
// before the MAC, and the locators of the path that it is about, that of the answering end first. The data
// begin with the token, so a report is of one probe. The key is that of the probe's own direction:
// the programs of the answering end have it for the updates that they check, and no update has this MAC,
// as its message, which stands where the mark does, has another first byte (UpdateMAC). The
// programs compute the same (bpf/ilnp/reportmac.h). data has at least ReportLen bytes.
func ReportMAC(key [MACKeyLen]byte, data []byte, near, far roam.L64) [MACLen]byte {
	b := append(make([]byte, 0, ReportLen+16), data[:ReportLen]...)
	b = binary.BigEndian.AppendUint64(b, uint64(near))
	return sipHash128(key, binary.BigEndian.AppendUint64(b, uint64(far)))
}
