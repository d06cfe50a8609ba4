/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Where code lies. Code that packets seldom need stands behind the rest of its function, and
 * so in cache lines that they do not touch.
 */
#ifndef ROAM_LIKELY_H
#define ROAM_LIKELY_H

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Has a register keep its value, where clang would load a constant again before every branch. */
#define keep(x) asm volatile("" : "+r"(x))

#endif
