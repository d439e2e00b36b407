"""The next records of the active controller. They are already applied to the controller's image.

The image of the active controller is ahead of the committed records. If the controller loses its
leadership, it discards the image. Responses wait until their records are committed.
"""

from cluster.files.messages import Message, encode_message
from cluster.reference.controller.image import MetadataImage
from cluster.reference.machine import Nanoseconds
from cluster.reference.settings import Settings


class Draft:
    """The records of one decision. Either all records are appended, as one batch, or none.

    Attributes:
        image: The metadata with the draft's records applied.
        settings: The node's settings.
        now: The time of the decision.
        values: The records' bytes.
    """

    def __init__(
        self, image: MetadataImage, *, settings: Settings, offset: int, now: Nanoseconds
    ) -> None:
        self.image = image
        self.settings = settings
        self.now = now
        self.values: list[bytes] = []
        self._offset = offset

    @property
    def next_offset(self) -> int:
        """The next record's offset in the metadata log.

        A new broker gets this offset as its epoch (KIP-631).
        """
        return self._offset + len(self.values)

    def write(self, message: Message) -> None:
        """Add a record and apply it to the image."""
        self.image.replay(message, self.next_offset)
        self.values.append(encode_message(message))
