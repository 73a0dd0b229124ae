#include "metrics/request_log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace weir::metrics {
namespace {

constexpr std::size_t queue_lines = 8192;
constexpr std::size_t write_bytes = 64 * 1024;

int open_log(const std::string& path) {
  if (path.empty()) return -1;
  if (path == "-") return STDOUT_FILENO;
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0) {
    throw std::runtime_error("cannot open the request log '" + path + "': " + std::generic_category().message(errno) +
                             "; set log.requests to a file that can be written, \"-\" (standard output) or \"\" (off)");
  }
  return fd;
}

}  // namespace

/// The queue and its writer. `mutex_` guards what both sides touch; the file belongs to the writer alone.
struct RequestLog::State {
  State(const std::string& path, std::string name) : instance(std::move(name)), fd_(open_log(path)) {
    if (fd_ < 0) return;
    queue_.reserve(queue_lines);
    writer_ = std::thread([this] { run(); });
  }

  ~State() {
    if (fd_ < 0) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    arrived_.notify_one();
    writer_.join();
    if (fd_ != STDOUT_FILENO) ::close(fd_);
  }

  bool on() const { return fd_ >= 0; }

  void push(std::string line) {
    {
      const std::lock_guard lock(mutex_);
      if (queue_.size() == queue_lines) {
        ++dropped_;
        return;
      }
      queue_.push_back(std::move(line));
      ++queued_;
    }
    arrived_.notify_one();
  }

  void flush() {
    std::unique_lock lock(mutex_);
    const auto target = queued_;
    written_.wait(lock, [&] { return done_ >= target; });
  }

  std::uint64_t dropped() const {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

  const std::string instance;

 private:
  void run() {
    // Signals are the control thread's; a reader of standard output that has gone is an error here, not the end.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);

    std::vector<std::string> batch;
    batch.reserve(queue_lines);
    std::unique_lock lock(mutex_);
    while (true) {
      arrived_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      batch.swap(queue_);
      lock.unlock();
      const std::uint64_t lost = write_batch(batch);
      lock.lock();
      done_ += batch.size();
      dropped_ += lost;
      batch.clear();
      written_.notify_all();
    }
  }

  /// Lines that did not get out whole.
  std::uint64_t write_batch(const std::vector<std::string>& lines) {
    std::uint64_t lost = 0, in_buffer = 0;
    for (const auto& line : lines) {
      buffer_ += line;
      buffer_ += '\n';
      ++in_buffer;
      if (buffer_.size() < write_bytes) continue;
      lost += in_buffer - write_buffer();
      in_buffer = 0;
    }
    return lost + in_buffer - write_buffer();
  }

  /// Standard output may have been made non-blocking by whoever shares it.
  bool wait_until_writable() {
    pollfd poll{.fd = fd_, .events = POLLOUT, .revents = 0};
    return ::poll(&poll, 1, -1) == 1;
  }

  /// Writes and empties the buffer; the number of lines that got out whole.
  std::uint64_t write_buffer() {
    std::string_view left = buffer_;
    // After a write that broke off within a line (a full disk), the next line begins on a line of its own.
    if (torn_ && !left.empty() && ::write(fd_, "\n", 1) == 1) torn_ = false;
    while (!left.empty() && !torn_) {
      const ssize_t n = ::write(fd_, left.data(), left.size());
      if (n < 0 && (errno == EINTR || (errno == EAGAIN && wait_until_writable()))) continue;
      if (n <= 0) break;
      left.remove_prefix(static_cast<std::size_t>(n));
    }
    const auto out = std::string_view(buffer_).substr(0, buffer_.size() - left.size());
    if (!out.empty()) torn_ = out.back() != '\n';
    const auto whole = static_cast<std::uint64_t>(std::count(out.begin(), out.end(), '\n'));
    buffer_.clear();
    return whole;
  }

  mutable std::mutex mutex_;
  std::condition_variable arrived_, written_;
  std::vector<std::string> queue_;
  std::uint64_t queued_ = 0, done_ = 0, dropped_ = 0;
  bool stopping_ = false;

  const int fd_;
  std::string buffer_;
  bool torn_ = false;
  std::thread writer_;
};

RequestLog::RequestLog(const std::string& path, std::string instance)
    : state_(std::make_unique<State>(path, std::move(instance))) {}

RequestLog::~RequestLog() = default;

void RequestLog::write(const RequestRecord& record) {
  if (state_->on()) state_->push(log_line(record, state_->instance));
}

void RequestLog::flush() {
  if (state_->on()) state_->flush();
}

std::uint64_t RequestLog::dropped() const { return state_->dropped(); }

}  // namespace weir::metrics
