#include "proxy/compare/log_files.hpp"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "metrics/compare/samples/log_reading.hpp"

namespace weir::proxy::compare {
namespace {

constexpr std::size_t buffer_size = 1024 * 1024;
constexpr std::size_t longest = metrics::compare::samples::longest_line;
static_assert(buffer_size > longest + 1);

struct Close {
  void operator()(gzFile file) const { gzclose_r(file); }
};
using File = std::unique_ptr<std::remove_pointer_t<gzFile>, Close>;

File open(const std::string& path) {
  errno = 0;
  if (path != "-") return File(gzopen(path.c_str(), "rb"));
  const int input = dup(STDIN_FILENO);
  if (input < 0) return nullptr;
  File file(gzdopen(input, "rb"));
  if (!file) close(input);
  return file;
}

/// Cuts what was read into lines.
class Lines {
 public:
  explicit Lines(const OnLine& on_line) : on_line_(on_line) {}

  /// Takes the lines off the front of the buffer; returns how many bytes remain of an unfinished one.
  std::size_t take(char* buffer, std::size_t size) {
    std::string_view rest(buffer, size);
    for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      give(rest.substr(0, end), true);
      rest.remove_prefix(end + 1);
    }
    // The rest of a line that is too long is dropped as it comes.
    if (rest.size() > longest) {
      if (!cut_) give_cut(rest);
      cut_ = true;
      return 0;
    }
    if (cut_) return 0;
    std::memmove(buffer, rest.data(), rest.size());
    return rest.size();
  }

  void end(std::string_view rest) {
    if (!cut_ && !rest.empty()) give(rest, false);
  }

 private:
  void give_cut(std::string_view line) { on_line_(line.substr(0, longest + 1), ++number_, true); }

  void give(std::string_view line, bool has_newline) {
    if (cut_) {
      cut_ = false;  // The line has been given.
    } else if (line.size() > longest) {
      give_cut(line);
    } else {
      on_line_(line, ++number_, has_newline);
    }
  }

  const OnLine& on_line_;
  std::uint64_t number_ = 0;
  bool cut_ = false;
};

}  // namespace

std::optional<std::string> for_each_line(const std::string& path, const OnLine& on_line) {
  const auto name = path == "-" ? std::string("standard input") : path;
  const auto file = open(path);
  if (!file) return name + ": cannot be opened: " + std::strerror(errno ? errno : ENOMEM);
  gzbuffer(file.get(), 256 * 1024);
  std::vector<char> buffer(buffer_size + metrics::compare::samples::line_padding);
  Lines lines(on_line);
  std::size_t held = 0;
  for (;;) {
    const int read = gzread(file.get(), buffer.data() + held, static_cast<unsigned>(buffer_size - held));
    if (read <= 0) break;
    held = lines.take(buffer.data(), held + static_cast<std::size_t>(read));
  }
  int error = Z_OK;
  const char* const why = gzerror(file.get(), &error);
  lines.end(std::string_view(buffer.data(), held));
  if (error == Z_OK || error == Z_STREAM_END) return std::nullopt;
  if (error == Z_BUF_ERROR) return name + ": ends within its compressed data; is it still being written?";
  return name + ": cannot be read: " + (error == Z_ERRNO ? std::strerror(errno) : why);
}

}  // namespace weir::proxy::compare
