#include "tests/integration/peers/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "tests/integration/peers/event.hpp"

namespace weir::integration {

TemporaryDirectory::TemporaryDirectory() {
  auto name = (std::filesystem::temp_directory_path() / "weir-integration-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name + ": " + std::strerror(errno));
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

Process::Process(std::vector<std::string> command, const std::filesystem::path& output) {
  std::vector<char*> arguments;
  for (auto& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const auto path = output.string();

  const pid_t parent = ::getpid();
  id_ = ::fork();
  if (id_ < 0) throw std::runtime_error(std::string("cannot fork: ") + std::strerror(errno));
  if (id_ == 0) {
    // Only calls that are safe after a fork of a program with threads.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(126);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  handle_ = static_cast<int>(::syscall(SYS_pidfd_open, id_, 0));
  if (handle_ < 0) throw std::runtime_error(std::string("cannot watch a process: ") + std::strerror(errno));
}

Process::~Process() {
  if (!exit_) {
    send(SIGKILL);
    wait(patience);
  }
  ::close(handle_);
}

void Process::send(int signal) const {
  if (!exit_) ::kill(id_, signal);
}

std::optional<Exit> Process::wait(std::chrono::milliseconds at_most) {
  if (exit_) return exit_;
  pollfd ended{handle_, POLLIN, 0};
  if (::poll(&ended, 1, static_cast<int>(at_most.count())) <= 0) return std::nullopt;
  int status = 0;
  ::waitpid(id_, &status, 0);
  exit_ = WIFEXITED(status) ? Exit{WEXITSTATUS(status), 0} : Exit{-1, WTERMSIG(status)};
  return exit_;
}

std::size_t Process::resident_memory() const {
  std::ifstream file("/proc/" + std::to_string(id_) + "/status");
  for (std::string word; file >> word;) {
    std::size_t kilobytes = 0;
    if (word == "VmRSS:" && file >> kilobytes) return kilobytes * 1024;
  }
  throw std::runtime_error("cannot tell the memory of process " + std::to_string(id_));
}

std::size_t Process::open_descriptors() const {
  const std::filesystem::directory_iterator folder("/proc/" + std::to_string(id_) + "/fd");
  return static_cast<std::size_t>(std::distance(folder, {}));
}

Finished run(std::vector<std::string> command) {
  const TemporaryDirectory directory;
  const auto output = directory.path() / "output";
  const auto name = command.front();
  Process process(std::move(command), output);
  const auto exit = process.wait(patience);
  if (!exit) throw TimedOut("the end of " + name + ", which said: " + read_file(output));
  return {*exit, read_file(output)};
}

}  // namespace weir::integration
