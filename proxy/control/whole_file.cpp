#include "proxy/control/whole_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "proxy/net/unique_fd.hpp"

namespace weir::proxy::control {
namespace {

/// Returns "" or why the bytes are not all on the disk. `how` is added to the flags of opening.
std::string write_all(const std::string& file, std::string_view text, int how, mode_t mode) {
  // A pipe without a reader would keep its writer waiting.
  const net::UniqueFd out(::open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | how, mode));
  if (out.get() < 0) return std::strerror(errno);
  const auto size = static_cast<off_t>(text.size());
  while (!text.empty()) {
    const auto written = ::write(out.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return std::strerror(errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::ftruncate(out.get(), size) == 0 && ::fsync(out.get()) == 0 ? "" : std::strerror(errno);
}

}  // namespace

std::string write_whole(const std::string& directory, std::string_view name, std::string_view text, mode_t mode) {
  const auto file = directory + "/" + std::string(name), next = file + ".new";
  auto why = write_all(next, text, O_CREAT | O_TRUNC, mode);
  if (why.empty() && std::rename(next.c_str(), file.c_str()) != 0) why = std::strerror(errno);
  if (!why.empty()) {
    ::unlink(next.c_str());
    return why;
  }
  const net::UniqueFd folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder.get() < 0 || ::fsync(folder.get()) != 0 ? std::strerror(errno) : "";
}

std::string write_over(const std::string& directory, std::string_view name, std::string_view text) {
  return write_all(directory + "/" + std::string(name), text, 0, 0);
}

}  // namespace weir::proxy::control
