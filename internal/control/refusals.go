package control

// What somebody may have to do about input with keys that was refused, by the reason of the event KindRefused.
// Sessions go on in each case. docs/howto/keys.md has the same table; a test of internal/role/ilnphost compares both
// with the reasons that there are.
const (
	linesAnew   = "add the lines of both hosts anew (`roam export`, `roam add LINE`)"
	lineThere   = "run `roam export` here, and `roam add LINE` on the peer"
	lineHere    = "run `roam export` on the peer, and `roam add LINE` here"
	nothingOnce = "nothing, if sessions with the peer work: "
)

var refusalHints = map[string]string{
	"locator update without mac": nothingOnce + "somebody forges it; else the peer lacks this host's key: " + lineThere,
	"locator update with a wrong mac": nothingOnce + "somebody forges it; else the hosts have other keys of each " +
		"other than `roam key show` prints: " + linesAnew,
	"locator update that is old or came before": "nothing: it is a copy, or came late, and changes nothing",
	"acknowledgement of an older update":        "nothing: it came late, and the update is repeated",
	"nonce from a locator that no update with a mac lists": "nothing: somebody has copied the nonce, or an update " +
		"is lost and will be repeated",
	"report without mac": "nothing: somebody on a path forges reports, or one was under way when the peer " +
		"showed its first MAC",
	"report with a wrong mac": nothingOnce + "somebody on a path forges reports; else the hosts have other keys of each " +
		"other than `roam key show` prints: " + linesAnew,
	"proof of a peer whose key this host lacks": "if you want the peer to be known by its key: " + lineHere,
	"peer with a key has sent no proof": nothingOnce + "somebody uses its identifier; else the peer lacks this " +
		"host's key: " + lineThere,
	"proof that is forged": nothingOnce + "somebody forges it; else one of the hosts has another key by now " +
		"(`roam key show`): " + linesAnew,
	"proof that is old or came before": "nothing: it is a copy, or one of before a restart, and a peer that is " +
		"there answers the challenge",
	"proof from a locator that it does not list": nothingOnce + "somebody has copied it; else a site border " +
		"rewrites the peer's addresses: set uplinks.outside or uplinks.border in its roam.conf",
	"proof challenged, as too many came": "nothing, if it stops: peers that are there answer; else filter the " +
		"sources of the flood ahead of this host",
	"peer did not confirm its proof": "nothing, if it was once; else see that the path passes packets both ways " +
		"(`roam doctor PEER`); if it does, somebody has this host's key: docs/howto/keys.md#a-key-was-stolen",
	"vouch of a peer whose key this host lacks": "the peer has replaced a key that this host never had: " + lineHere,
	"vouch that is forged": nothingOnce + "somebody forges it; if the peer has replaced its key " +
		"(`roam key rotate`): " + lineHere,
	"vouch whose time is over": "if the clocks of both hosts are right (`date`), the old key vouches no more: " +
		lineHere,
	"vouch for a node that is known already": nothingOnce + "this host has that key; else see that no two lines of " +
		"its files are of that peer",
	"new session of a node identifier that was replaced": "nothing, if it stops: the peer gets the new key; else " +
		lineThere,
}

// RefusalHint returns one line that says what to do about input with keys that was refused for a reason; "": the
// reason is not one of those.
func RefusalHint(reason string) string { return refusalHints[reason] }
