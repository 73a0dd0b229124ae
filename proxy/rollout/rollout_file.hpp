// The file in which rollouts outlast a restart of weir: rollouts.json in the directory of [admin] state. A thread of
// its own writes it, so that a slow disk holds up nobody.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "balancer/rollout/machine.hpp"
#include "metrics/hash.hpp"

namespace weir::proxy::rollout {

/// A rollout as the file keeps it. With another pool or candidate it is another rollout.
struct KeptRollout {
  std::string pool, candidate;
  balancer::rollout::Standing standing;
  bool operator==(const KeptRollout&) const = default;
};

struct KeptRollouts {
  /// The key by which conversations get their numbers: with another one, each would be on a side of chance again.
  std::optional<metrics::SipKey> conversation_key;
  std::map<std::string, KeptRollout, std::less<>> rollouts;  ///< By name.
  bool operator==(const KeptRollouts&) const = default;
};

/// Returns the text of the file.
std::string text_of(const KeptRollouts& kept);
/// Reads such a text. Returns nothing if it is none, or damaged.
std::optional<KeptRollouts> rollouts_in(std::string_view text);

/// Reads the file of a directory. A missing file, and "" for a directory, is one without rollouts. A file that cannot
/// be used is moved aside and logged; its rollouts are then idle, and their candidates get no request.
KeptRollouts read_rollouts(const std::string& directory);
/// Writes the file so that a crash at any time leaves the old one or the new one, and reaches the disk before it
/// returns. Only weir's user may read it. Returns a sentence if it cannot be written.
std::optional<std::string> write_rollouts(const std::string& directory, const KeptRollouts& kept);
/// Tries whether the file can be written there. Returns "", or a clause that says why not, and the way out. It leaves
/// nothing behind.
std::string why_not_kept(const std::string& directory);

/// Keeps the latest standings in the file. The control thread uses it. Where the file cannot be written, a restart must
/// not give a candidate back what was taken from it: the old text is then written over, or removed, so that all
/// rollouts are idle. A file system that was made read-only allows neither.
class RolloutWriter {
 public:
  /// Called on the context after each write: a sentence that says why a restart does not find the latest standings, or
  /// "". While a write is under way the context has work.
  using Tell = std::function<void(const std::string& error)>;

  /// `kept` is what a restart finds so far. The context outlives the object; nothing is told once that is gone.
  RolloutWriter(boost::asio::io_context& context, KeptRollouts kept, Tell tell);
  /// Waits until the last write has been tried.
  ~RolloutWriter() { wait(); }
  RolloutWriter(const RolloutWriter&) = delete;
  RolloutWriter& operator=(const RolloutWriter&) = delete;

  /// Wants the directory's file to have this. A write that waits is replaced by it.
  void write(std::string directory, KeptRollouts latest);
  /// True until the outcome of the last write has been told.
  bool is_busy() const { return under_way_ > 0; }
  /// Waits until the last write has been tried. Its outcome is told later.
  void wait();

 private:
  struct Wanted {
    std::string directory;
    KeptRollouts kept;
  };
  void begin();
  std::string keep(Wanted wanted);

  boost::asio::io_context& context_;
  const std::shared_ptr<Tell> tell_;
  int under_way_ = 0;
  std::optional<Wanted> next_;  ///< Waits for the write that is under way.
  KeptRollouts kept_;           ///< As a restart finds them. Of the writing thread.
  boost::asio::thread_pool thread_{1};
};

// Writes a file so that a crash at any time leaves the old one or the new one.

/// Writes the file of that name in the directory, first beside it as NAME.new. The text has reached the disk when the
/// call returns. Returns "", or the system's word for why it is not written; then nothing is left of it.
std::string write_whole(const std::string& directory, std::string_view name, std::string_view text, mode_t mode);

/// Writes over the file of that name where it lies, which a full disk allows as long as the text needs no more blocks.
/// A crash meanwhile leaves a damaged file. Returns what write_whole returns; then the file may be damaged, too.
std::string write_over(const std::string& directory, std::string_view name, std::string_view text);

}  // namespace weir::proxy::rollout
