// Descriptors that a forked child must not keep. A lock on an open file lives as long as any
// process has the file open: with a child that lives on, a rank that died would look alive.
#pragma once

namespace nf::cxl {

// From now on a child closes it as it is forked. False where there are too many.
bool keep_from_children(int file);

// Closes a file that was kept from children; in a child, which has closed it already, does nothing.
void close_own(int file);

}  // namespace nf::cxl
