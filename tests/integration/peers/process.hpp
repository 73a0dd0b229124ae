// A program under test is started and watched here, and ends with its owner.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::integration {

/// A directory that is removed with its owner.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void write_file(const std::filesystem::path& path, std::string_view text);
std::string read_file(const std::filesystem::path& path);

struct Exit {
  int code = -1;   ///< -1 if a signal ended the process.
  int signal = 0;  ///< 0 if the process ended by itself.
};

/// A process under test, for one thread. The destructor kills and reaps the process, which also dies with this program.
class Process {
 public:
  /// Starts a process. What it writes to standard output and standard error goes to the file `output`.
  Process(std::vector<std::string> command, const std::filesystem::path& output);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return id_; }
  void send(int signal) const;
  /// Returns how it ended, if it does within `at_most`.
  std::optional<Exit> wait(std::chrono::milliseconds at_most);
  /// Returns the memory it holds now, in bytes (VmRSS).
  std::size_t resident_memory() const;
  std::size_t open_descriptors() const;

 private:
  pid_t id_ = -1;
  int handle_ = -1;
  std::optional<Exit> exit_;
};

struct Finished {
  Exit exit;
  std::string output;
};

/// Runs a program to its end. Throws TimedOut.
Finished run(std::vector<std::string> command);

}  // namespace weir::integration
