/* CRC32C by ISA-L, which picks the fastest code for the processor at run time. */
#include "base/crc32c.h"

#include <isa-l/crc.h>
#include <stddef.h>

/* ISA-L counts bytes in an int, so long inputs go in pieces. */
#define CRC32C_PIECE ((size_t)1 << 30)

uint32_t crc32c(struct slice bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  while (bytes.length) {
    size_t piece = bytes.length < CRC32C_PIECE ? bytes.length : CRC32C_PIECE;
    /* The library's parameter lacks a const; it only reads. */
    crc = crc32_iscsi((unsigned char *)bytes.data, (int)piece, crc);
    bytes.data += piece;
    bytes.length -= piece;
  }
  return crc ^ 0xFFFFFFFFu;
}
