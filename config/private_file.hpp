// Files that commands write for whoever runs them: they hold figures of a service, names of its keys, or keys.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

namespace weir::config {

/// Makes a new file readable for its owner alone, whatever the umask. A file that is there keeps its mode, which its
/// owner chose. To be called before a stream opens the file; the stream tells of errors.
inline void begin_private(const std::string& path) {
  // A pipe without a reader would keep its writer waiting.
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, S_IRUSR | S_IWUSR);
  if (file >= 0) ::close(file);
}

}  // namespace weir::config
