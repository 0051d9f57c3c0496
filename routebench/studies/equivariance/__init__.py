"""Do poses change with the image as a linear map would have it?"""
