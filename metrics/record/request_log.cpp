#include "metrics/record/request_log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace weir::metrics::record {
namespace {

constexpr std::size_t write_bytes = 64 * 1024;
/// A pipe without a reader is tried so often.
constexpr std::chrono::milliseconds try_again_after{100};

constexpr int open_flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC;
constexpr mode_t open_mode = 0640;

std::string cannot_open(const std::string& path, int error) {
  return "cannot open the request log '" + path + "': " + std::generic_category().message(error);
}

/// Does not wait for a named pipe's reader: without one it returns -1 and sets errno to ENXIO.
int open_now(const std::string& path) {
  if (path == "-") return STDOUT_FILENO;
  const int fd = ::open(path.c_str(), open_flags | O_NONBLOCK, open_mode);
  if (fd >= 0) ::fcntl(fd, F_SETFL, O_APPEND);
  return fd;
}

bool is_pipe(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
}

/// Opens the first file. Returns -1 where there is none, and where it is a pipe that nobody reads yet.
int open_first(const std::string& path) {
  if (path.empty()) return -1;
  const int fd = open_now(path);
  const int error = errno;
  if (fd < 0 && !(error == ENXIO && is_pipe(path))) {
    throw std::runtime_error(cannot_open(path, error) +
                             "; set log.requests to a file that can be written, \"-\" (standard output) or \"\" (off)");
  }
  return fd;
}

bool same_file(int one, int other) {
  struct stat a = {};
  struct stat b = {};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// An entry of the queue: a line, or the file to which all later lines go (-1 for none).
struct Entry {
  std::string line;
  std::optional<int> opened{};
};

void close_log(int fd) {
  if (fd >= 0 && fd != STDOUT_FILENO) ::close(fd);
}

}  // namespace

/// The queue and its writer thread. `mutex_` guards what both sides touch; the file belongs to the writer alone.
struct RequestLog::State {
  State(std::string path, std::string name)
      : instance_(std::move(name)), path_(std::move(path)), on_(!path_.empty()), fd_(open_first(path_)) {
    queue_.reserve(queue_lines);
    if (on() && fd_ < 0) {
      awaited_ = path_;
      account_.waits_for_reader = true;
    }
  }

  ~State() { close_log(fd_); }

  bool on() const { return on_.load(std::memory_order_relaxed); }

  std::string instance() const {
    const std::lock_guard lock(mutex_);
    return instance_;
  }

  void push(std::string line) {
    {
      const std::lock_guard lock(mutex_);
      if (!on()) return;  // It was switched off meanwhile.
      if (stopping_ || queue_.size() >= queue_lines) {
        ++account_.dropped;
        return;
      }
      put({std::move(line)});
    }
    arrived_.notify_one();
  }

  std::optional<std::string> reopen() {
    if (path_.empty() || path_ == "-") return std::nullopt;
    auto problem = change(Opened(path_), instance());
    if (problem) *problem += "; its lines go on into the file that is open";
    return problem;
  }

  std::optional<std::string> change(Opened&& opened, const std::string& name) {
    if (opened.problem) {
      const std::lock_guard lock(mutex_);
      if (opened.path == path_) instance_ = name;
      return std::move(opened.problem);
    }
    {
      const std::lock_guard lock(mutex_);
      // Where no line lies between two changes, only the later one counts. So the queue stays bounded.
      if (!queue_.empty() && queue_.back().opened) {
        close_log(*std::exchange(queue_.back().opened, opened.fd));
      } else {
        put({{}, opened.fd});
      }
      opened.fd = -1;
      path_ = std::move(opened.path);
      instance_ = name;
      on_.store(!path_.empty(), std::memory_order_relaxed);
      changing_ = true;
    }
    arrived_.notify_one();
    return std::nullopt;
  }

  void flush() {
    std::unique_lock lock(mutex_);
    const auto target = queued_;
    written_.wait(lock, [&] { return done_ >= target; });
  }

  void count_lost() {
    const std::lock_guard lock(mutex_);
    ++account_.dropped;
  }

  Account account() const {
    const std::lock_guard lock(mutex_);
    auto account = account_;
    account.queued = queue_.size();
    return account;
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    arrived_.notify_one();
  }

  /// Waits for the end of the writer. Returns how many entries it has not written by then.
  std::uint64_t left_after(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    return written_.wait_for(lock, at_most, [&] { return ended_; }) ? 0 : queued_ - done_;
  }

  /// The writer thread's work, until stop().
  void run() {
    write_all();
    const std::lock_guard lock(mutex_);
    ended_ = true;
    written_.notify_all();
  }

 private:
  void put(Entry entry) {
    queue_.push_back(std::move(entry));
    ++queued_;
  }

  void write_all() {
    // The control thread takes all signals. If the reader of standard output has gone, a write here fails and the
    // program goes on.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);

    std::vector<Entry> batch;
    batch.reserve(queue_lines);
    std::unique_lock lock(mutex_);
    while (true) {
      arrived_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      if (!awaited_.empty()) wait_for_reader(lock);
      batch.swap(queue_);
      changing_ = false;
      lock.unlock();
      write_error_ = 0;
      const auto lines = static_cast<std::uint64_t>(
          std::ranges::count_if(batch, [](const Entry& entry) { return !entry.opened.has_value(); }));
      const std::uint64_t lost = write_batch(batch);
      lock.lock();
      done_ += batch.size();
      account_.dropped += lost;
      account_.written += lines - lost;
      if (lines > 0) account_.error = write_error_;
      batch.clear();
      written_.notify_all();
    }
  }

  /// Lines gather meanwhile. The wait ends without a reader when another file takes its place, or the log ends.
  void wait_for_reader(std::unique_lock<std::mutex>& lock) {
    const auto is_over = [&] { return stopping_ || changing_; };
    while (!is_over() && (fd_ = open_now(awaited_)) < 0) arrived_.wait_for(lock, try_again_after, is_over);
    awaited_.clear();
    account_.waits_for_reader = stopping_ && fd_ < 0;  // The queued lines are lost for this reason.
  }

  /// Returns how many lines were not written whole.
  std::uint64_t write_batch(const std::vector<Entry>& entries) {
    std::uint64_t lost = 0, in_buffer = 0;
    for (const auto& [line, opened] : entries) {
      if (!opened) {
        buffer_.append(line).push_back('\n');
        ++in_buffer;
        if (buffer_.size() < write_bytes) continue;
      }
      lost += in_buffer - write_buffer();
      in_buffer = 0;
      if (opened) change_to(*opened);
    }
    return lost + in_buffer - write_buffer();
  }

  void change_to(int fd) {
    line_unfinished_ = line_unfinished_ && same_file(fd_, fd);
    close_log(std::exchange(fd_, fd));
  }

  /// Another program that shares standard output may have made it non-blocking.
  bool wait_until_writable() {
    pollfd poll{.fd = fd_, .events = POLLOUT, .revents = 0};
    return ::poll(&poll, 1, -1) == 1;
  }

  /// Writes and empties the buffer. Returns how many lines were written whole.
  std::uint64_t write_buffer() {
    std::string_view left = buffer_;
    // If the last write stopped within a line (a full disk), a newline comes first, so that the next line stands alone.
    if (line_unfinished_ && !left.empty()) {
      if (::write(fd_, "\n", 1) == 1)
        line_unfinished_ = false;
      else
        write_error_ = errno;
    }
    while (!left.empty() && !line_unfinished_) {
      const ssize_t n = ::write(fd_, left.data(), left.size());
      if (n < 0 && (errno == EINTR || (errno == EAGAIN && wait_until_writable()))) continue;
      if (n < 0) write_error_ = errno;
      if (n <= 0) break;
      left.remove_prefix(static_cast<std::size_t>(n));
    }
    const auto out = std::string_view(buffer_).substr(0, buffer_.size() - left.size());
    if (!out.empty()) line_unfinished_ = out.back() != '\n';
    const auto whole = static_cast<std::uint64_t>(std::count(out.begin(), out.end(), '\n'));
    buffer_.clear();
    return whole;
  }

  mutable std::mutex mutex_;
  std::condition_variable arrived_, written_;
  std::vector<Entry> queue_;
  std::uint64_t queued_ = 0, done_ = 0;
  Account account_;
  bool stopping_ = false, ended_ = false, changing_ = false;  ///< Another file is in the queue.

  std::string instance_;
  std::string path_;  ///< Belongs to the thread that made the log.
  std::atomic<bool> on_;
  int fd_;
  std::string buffer_;
  bool line_unfinished_ = false;
  int write_error_ = 0;  ///< The errno of the batch that is written.
  std::string awaited_;  ///< The pipe that had no reader when it was to be opened.
};

RequestLog::RequestLog(const std::string& path, std::string instance)
    : state_(std::make_shared<State>(path, std::move(instance))), writer_([state = state_] { state->run(); }) {}

RequestLog::~RequestLog() {
  state_->stop();
  if (writer_.joinable()) writer_.join();
}

std::uint64_t RequestLog::finish(std::chrono::milliseconds at_most) {
  state_->stop();
  const auto left = state_->left_after(at_most);
  if (!writer_.joinable()) return left;
  if (left == 0)
    writer_.join();
  else
    writer_.detach();
  return left;
}

void RequestLog::write(const RequestRecord& record) {
  if (state_->on()) state_->push(log_line(record, state_->instance()));
}

void RequestLog::count_lost() {
  if (state_->on()) state_->count_lost();
}

void RequestLog::flush() {
  if (state_->on()) state_->flush();
}

std::optional<std::string> RequestLog::reopen() { return state_->reopen(); }

RequestLog::Opened::Opened(std::string wanted) : path(std::move(wanted)) {
  if (path.empty()) return;
  fd = open_now(path);
  if (fd < 0) problem = cannot_open(path, errno);
}

RequestLog::Opened::~Opened() { close_log(fd); }

std::optional<std::string> RequestLog::change(Opened&& opened, const std::string& instance) {
  return state_->change(std::move(opened), instance);
}

RequestLog::Account RequestLog::account() const { return state_->account(); }

}  // namespace weir::metrics::record
