// Keeps the file of rollouts on a thread of its own, so that a slow disk holds up nobody. The control thread uses it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "proxy/control/rollout_file.hpp"

namespace weir::proxy::control {

class RolloutWriter {
 public:
  /// The result of a write.
  struct Written {
    std::uint64_t number = 0;  ///< Of the newest write() that it is about.
    std::string error;         ///< A sentence that says why a restart does not find what was wanted, or "".
  };
  /// Called on the context.
  using Tell = std::function<void(const Written&)>;

  /// `kept` is what a restart finds so far. The context outlives the object; nothing is told once that is gone.
  RolloutWriter(boost::asio::io_context& context, KeptRollouts kept, Tell tell);
  /// Waits until the last write has been tried.
  ~RolloutWriter();
  RolloutWriter(const RolloutWriter&) = delete;
  RolloutWriter& operator=(const RolloutWriter&) = delete;

  /// Wants the directory's file to have this. A write that waits is replaced by it. Returns its number, which grows.
  std::uint64_t write(std::string directory, KeptRollouts wanted);
  /// True until what has come of the last write has been told.
  bool is_busy() const { return told_ < asked_; }
  /// Waits until the last write has been tried. What has come of it is told later.
  void wait();

 private:
  struct Wanted {
    std::uint64_t number;
    std::string directory;
    KeptRollouts kept;
  };
  void work();
  void tell(const Written& written) noexcept;
  std::optional<std::string> keep(const Wanted& wanted);

  boost::asio::io_context& context_;
  const std::shared_ptr<Tell> tell_;
  std::uint64_t asked_ = 0, told_ = 0;  ///< Of the control thread.
  KeptRollouts kept_;                   ///< As a restart finds them. Of the writing thread.
  std::mutex mutex_;
  std::condition_variable idle_;
  std::optional<Wanted> next_;  ///< With the mutex.
  bool working_ = false;        ///< With the mutex.
  boost::asio::thread_pool thread_{1};
};

}  // namespace weir::proxy::control
