// Clients that ask all the time, each on a thread of its own, and note each request that was not answered well.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace weir::integration {

class Load {
 public:
  /// Half of the clients keep their connection as long as the server lets them, the others have a new one each time.
  /// Each sends `request`, and wants a 200 whose body ends with `end`.
  Load(std::uint16_t port, std::size_t clients, std::string request, std::string end);
  ~Load() { stop(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  void stop();
  /// Waits until so many more requests have been answered.
  void wait_for_more(std::size_t requests) const;
  std::size_t answered() const { return answered_; }
  /// Says of each request that failed what happened to it.
  std::vector<std::string> failures() const;

 private:
  void ask_all_the_time(bool keeps);

  const std::uint16_t port_;
  const std::string request_, end_;
  std::atomic<bool> over_{false};
  std::atomic<std::size_t> answered_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> failures_;
  std::vector<std::thread> threads_;
};

}  // namespace weir::integration
