// File descriptors that forked children must not inherit. A lock on an open file is held as long as
// any process has the file open, so a child that outlives its rank would make the rank look alive.
#pragma once

namespace nf::cxl {

// Forked children close `file` from now on. Returns false if there are too many such files.
bool close_on_fork(int file);

// Closes a file registered with close_on_fork(). A no-op in a forked child, which has closed it.
void close_owned(int file);

}  // namespace nf::cxl
