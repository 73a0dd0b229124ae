// The file by which a Unix-domain socket is found.
#pragma once

#include <sys/types.h>

#include <string>

namespace weir::proxy::serve {

/// The file of a socket on which this process listens. At its end it is removed, unless another process has put its own
/// in its place. Owner and group may connect (mode 0660).
class SocketFile {
 public:
  /// Gives a new socket this path. A socket file that nobody listens on is replaced. Throws std::runtime_error with why
  /// that cannot be, and the way out; `key` is the setting that names the path.
  SocketFile(int socket, const std::string& path, const std::string& key);
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  const std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace weir::proxy::serve
