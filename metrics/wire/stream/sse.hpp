// Frames event streams on raw bytes, by WHATWG HTML "server-sent events": one leading byte order mark, lines that end
// in LF, CR or CRLF, a blank line that ends an event, comments, several data lines joined by LF.
//
// Each stream has one framer, on the stream's thread. Events are found where they lie in the read; they are copied only
// if they are split over reads or have several data lines. The raw bytes of an unfinished event are kept up to `limit`.
// A longer event is skipped and reported as too long, and the one after it is read again. It costs about two memchr
// over the bytes. Any split of a stream gives the same events.
//
// Where the stream is JSON documents, one a line (Ollama), every line that is not empty is an event.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weir::metrics::wire {

struct SseEvent {
  std::string_view data;  ///< The data lines are joined by LF, and 64 bytes behind them are readable. It is valid until
                          ///< the next call.
  std::optional<std::uint64_t> data_begin;  ///< `data` begins here in the stream; absent if it was joined.
  std::uint64_t begin = 0;  ///< The block begins here in the stream, just behind the blank line before it.
  std::uint64_t end = 0;    ///< The block ends here, just behind its own blank line (the LF of a CRLF may come with the
                            ///< next read).
  std::uint64_t size = 0;   ///< The block has so many bytes without its blank line.
  bool too_long = false;    ///< `size` is above the limit: `data` is empty.
};

enum class Framing : std::uint8_t { events, lines };

class SseFramer {
 public:
  explicit SseFramer(std::size_t limit, Framing framing = Framing::events) : limit_(limit), framing_(framing) {}

  /// Takes a read; `piece` needs 64 readable bytes behind it and must stay until next() has returned false.
  void feed(std::span<const char> piece);
  /// Finds the next event of the read. It is to be called until it returns false: then the unfinished rest has been
  /// kept.
  bool next(SseEvent& event);

  /// Returns the number of bytes fed so far, which is an offset in the stream.
  std::uint64_t position() const { return base_ + (static_cast<std::uint64_t>(end_ - piece_)); }
  /// Returns where the unfinished block begins; position() if there is none.
  std::uint64_t block_begin() const { return block_begin_; }
  /// True if the read began with the LF of a CRLF whose CR had ended the block before: that byte belongs to that block.
  bool swallowed_lf() const { return swallowed_lf_; }
  /// Returns the kept bytes that lie before the read, as they were when it began; valid until the next feed().
  std::string_view earlier() const { return std::string_view(carry_spent_ ? spent_ : carry_).substr(0, earlier_); }
  /// Returns the kept bytes of the unfinished block (empty if the block is beyond the limit).
  std::string_view unfinished() const { return carry_; }
  /// Returns how much memory is kept for an unfinished block, and for one that has just ended.
  std::size_t kept() const { return carry_.capacity() + spent_.capacity() + joined_.capacity(); }
  /// Returns the data of an event that lacks its blank line when the stream has ended.
  std::optional<std::string_view> pending();

 private:
  bool next_plain(SseEvent& event);
  void look_again(const char*& found, char wanted) const;
  const char* find_line_end();
  bool end_line(const char* eol, const char* after, SseEvent& event);
  bool end_block(std::uint64_t end, SseEvent& event);
  void read_line(std::string_view line, std::uint64_t at);
  void keep_rest();
  void skip_block();
  std::string_view join_data(std::string_view block);
  std::uint64_t offset_of(const char* p) const { return base_ + static_cast<std::uint64_t>(p - piece_); }

  std::size_t limit_;
  const char* piece_ = nullptr;
  const char* end_ = nullptr;
  const char* scan_ = nullptr;     // The bytes before it have been scanned.
  const char* next_lf_ = nullptr;  // The first LF at or behind the last place where one was looked for; end_ if
                                   // there is none.
  const char* next_cr_ = nullptr;
  const char* kept_to_ = nullptr;  // If carried_ is set, the bytes before it are in carry_.
  std::uint64_t base_ = 0;         // The stream offset of piece_.
  std::uint64_t block_begin_ = 0;
  std::uint64_t line_at_ = 0;  // The current line begins here, counted from block_begin_.
  std::uint64_t data_at_ = 0;  // The block's first data value begins here, counted from block_begin_.
  std::uint64_t data_size_ = 0;
  std::uint32_t data_lines_ = 0;
  Framing framing_;
  bool carried_ = false;   // The block began in an earlier read.
  bool skipping_ = false;  // The block is beyond the limit; nothing of it is kept.
  bool after_cr_ = false;  // The last byte read was a CR that ended a line.
  bool swallowed_lf_ = false;
  bool carry_spent_ = false;
  std::size_t earlier_ = 0;
  std::string carry_;   // Holds the unfinished block.
  std::string spent_;   // Holds the carry of a block that this read finished: its bytes are still in use.
  std::string joined_;  // Holds several data lines, joined.
};

// Decides which bytes of an event stream go on to the client when events, or members of an event's JSON, are taken out
// of it and nothing else changes.
//
// The stripper works in offsets of the stream, beside an SseFramer, which keeps the bytes. An unfinished event is held
// back up to `hold` bytes. A longer block is let through and can no longer be taken out. The size of the block alone
// decides that, so any split of a stream sends the same bytes.

class EventStripper {
 public:
  explicit EventStripper(std::size_t hold) : hold_(hold) {}

  /// Begins a read, with which the framer has been fed.
  void begin(std::string_view piece, const SseFramer& framer);
  /// True if nothing of the event has been sent on, so that it, or part of it, may still be taken out.
  bool may_cut(const SseEvent& event) const { return event.size <= hold_; }
  /// Takes an event out that the framer has just found.
  void cut(const SseEvent& event, const SseFramer& framer);
  /// Takes `bytes` bytes at offset `from` of the stream out. They lie in the event that the framer has just found.
  void cut(std::uint64_t from, std::size_t bytes, const SseFramer& framer);
  /// Ends a read: the framer has found all its events.
  void finish(const SseFramer& framer);

  /// Returns what goes on, in order. It is valid until the framer's next feed().
  std::span<const std::string_view> spans() const { return spans_; }
  /// True if part of an unfinished block has been let through.
  bool inside_event(const SseFramer& framer) const { return sent_to_ > framer.block_begin(); }
  /// Returns what is held back. It is valid until the framer's next feed().
  std::string_view buffered(const SseFramer& framer) const;

 private:
  void send(std::uint64_t to, const SseFramer& framer);

  std::size_t hold_;
  std::string_view piece_;
  std::uint64_t base_ = 0;     // The stream offset of piece_.
  std::uint64_t sent_to_ = 0;  // The bytes before it have been sent or taken out.
  std::uint64_t cut_to_ = 0;   // The event taken out last ended here.
  boost::container::small_vector<std::string_view, 1> spans_;
};

}  // namespace weir::metrics::wire
