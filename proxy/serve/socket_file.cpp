#include "proxy/serve/socket_file.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::serve {
namespace {

constexpr mode_t owner_and_group = 0660;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  return address;
}

/// Returns 0 if somebody listens there, or errno.
int try_to_connect(const std::string& path) {
  const net::UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return errno;
  const auto address = address_of(path);
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

/// Returns why the path is not free, or "" once it is.
std::string make_free(const std::string& path, const std::string& key) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return "";  // Binding tells what else is wrong.
  if (!S_ISSOCK(there.st_mode)) return "there is a file that is no socket; remove it, or give " + key + " another path";
  const int error = try_to_connect(path);
  if (error == ENOENT) return "";
  if (error == ECONNREFUSED) {
    ::unlink(path.c_str());
    return "";
  }
  return "the socket is taken by another program (`ss -xlp`, as root, says which); end it, or give " + key +
         " another path";
}

std::string reason(int error, const std::string& path, const std::string& key) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  if (error == ENOENT)
    return "there is no folder " + folder + "; make it (under systemd RuntimeDirectory= does), or give " + key +
           " a path in another one";
  if (error == EACCES || error == EPERM || error == EROFS)
    return "this user may not write into " + folder + "; let it, or give " + key + " a path in another folder";
  return std::error_code(error, std::generic_category()).message();
}

}  // namespace

SocketFile::SocketFile(int socket, const std::string& path, int backlog, const std::string& key) : path_(path) {
  const auto fail = [&](const std::string& why) {
    throw std::runtime_error(key + ": cannot listen on unix:" + path + ": " + why);
  };
  if (const auto why = make_free(path, key); !why.empty()) fail(why);
  // The file gets the socket's own mode, less the umask: there is no moment in which others may connect.
  ::fchmod(socket, owner_and_group);
  const auto address = address_of(path);
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fail(reason(errno, path, key));
  ::chmod(path.c_str(), owner_and_group);
  if (::listen(socket, backlog) != 0) fail(reason(errno, path, key));
  struct stat made {};
  if (::lstat(path.c_str(), &made) != 0) return;
  device_ = made.st_dev;
  inode_ = made.st_ino;
}

SocketFile::~SocketFile() {
  struct stat there {};
  if (inode_ == 0 || ::lstat(path_.c_str(), &there) != 0) return;
  // A file system gives the number of a removed file to the next one, so the number alone does not tell whose it is.
  const bool same = there.st_dev == device_ && there.st_ino == inode_;
  if (same && try_to_connect(path_) == ECONNREFUSED) ::unlink(path_.c_str());
}

}  // namespace weir::proxy::serve
