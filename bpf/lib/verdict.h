/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Verdicts that mean the same under tcx and under clsact. tcx treats every other value
 * as PASS_ON, TC_ACT_STOLEN among them.
 */
#ifndef ROAM_VERDICT_H
#define ROAM_VERDICT_H

#define PASS_ON -1 /* to the next program of the link, then to the stack: TCX_NEXT, TC_ACT_UNSPEC */
#define CONSUMED 0 /* accepted, it goes on without further programs of the link: TCX_PASS, TC_ACT_OK */
#define SHOT 2     /* dropped: TCX_DROP, TC_ACT_SHOT */
#define REDIRECT 7 /* what bpf_redirect returns: TCX_REDIRECT, TC_ACT_REDIRECT */

#endif
