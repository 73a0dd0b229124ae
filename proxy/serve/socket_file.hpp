// The file by which a Unix-domain socket is found.
#pragma once

#include <sys/types.h>

#include <string>

namespace weir::proxy::serve {

/// The file of a socket on which this process listens. The socket is to be closed before it ends: it then removes the
/// file, unless another process has put its own in its place. Owner and group may connect (mode 0660).
class SocketFile {
 public:
  /// Gives a new socket this path, and listens on it. A socket file that nobody listens on is replaced. Throws
  /// std::runtime_error with why that cannot be, and the way out; `key` is the setting that names the path.
  SocketFile(int socket, const std::string& path, int backlog, const std::string& key);
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  const std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace weir::proxy::serve
