/* Any bytes as a header block: walking stays inside; a block that passes the check survives a copy
 * byte for byte. */
#include <stdint.h>

#include "base/check.h"
#include "lane/header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span block = span_of(data, size), value;
    bool good = header_check(block) == WB_OK;
    struct header_writer w;
    struct header_iter iter;
    struct header_field f;
    struct buf out;
    size_t lines = 0;

    header_status(block);
    header_begin(&iter, block);
    while (header_next(&iter, &f)) {
        lines += f.line.len;
        CHECK(lines <= size);
        CHECK(f.value.ptr >= f.line.ptr && f.value.ptr + f.value.len <= f.line.ptr + f.line.len);
        CHECK(header_find(block, f.name, &value));
    }
    buf_init(&out, size + 64);
    header_open(&w, &out);
    header_copy(&w, block, NULL, NULL);
    CHECK(header_close(&w) == WB_OK);
    if (good) {
        CHECK(header_check(buf_span(&out)) == WB_OK);
        CHECK(buf_len(&out) == 10 + lines + 2);
    }
    buf_fini(&out);
    return 0;
}
