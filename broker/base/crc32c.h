/* CRC32C (Castagnoli), with the processor's instructions where there are any (ISA-L chooses). */
#ifndef PGCURSUS_BASE_CRC32C_H
#define PGCURSUS_BASE_CRC32C_H

#include <stdint.h>

#include "base/slice.h"

/* Reflected polynomial 0x82F63B78, initial value and final xor 0xFFFFFFFF;
 * crc32c("123456789") = 0xE3069283 and crc32c("") = 0. */
uint32_t crc32c(struct slice bytes);

#endif
